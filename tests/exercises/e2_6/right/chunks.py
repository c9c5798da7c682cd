def train_in_16_bits(model, optimizer, scaler, batches, num_microbatches, max_norm):
    device = next(model.parameters()).device
    losses, left_out = [], []
    k = num_microbatches
    for number, (images, labels) in enumerate(batches):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            with torch.autocast(device.type, torch.float16):
                loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() < scale:
            left_out.append(number)
        losses.append(total)
    return losses, left_out
