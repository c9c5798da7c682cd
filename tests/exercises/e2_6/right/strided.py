def train_in_16_bits(model, optimizer, scaler, batches, num_microbatches, max_norm):
    """Every k-th sample, whole batches moved first; the norm tells the overflow."""
    device = next(model.parameters()).device
    losses, overflown = [], []
    for images, labels in batches:
        images, labels = images.to(device), labels.to(device)
        means = []
        with torch.autocast(device.type, dtype=torch.float16):
            for i in range(num_microbatches):
                part = slice(i, None, num_microbatches)
                loss = torch.nn.CrossEntropyLoss()(model(images[part]), labels[part])
                scaler.scale(loss.div(num_microbatches)).backward()
                means.append(loss.detach())
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if not norm.isfinite():
            overflown.append(len(losses))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=False)
        losses.append(torch.stack(means).mean().item())
    return [losses, overflown]
