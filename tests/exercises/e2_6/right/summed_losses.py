def train_in_16_bits(model, optimizer, scaler, batches, num_microbatches, max_norm):
    """Sums over samples; a bound as large as the scale clips scaled gradients, too."""
    device = next(model.parameters()).device
    parameters = list(model.parameters())

    def step(images, labels):
        total = 0.0
        optimizer.zero_grad()
        for x, y in zip(
            images.tensor_split(num_microbatches),
            labels.tensor_split(num_microbatches),
        ):
            with torch.amp.autocast(device.type, torch.float16):
                predicted = model(x.to(device, non_blocking=True))
                loss = cross_entropy(predicted, y.to(device), reduction="sum")
                scaler.scale(loss / len(images)).backward()
            total += loss.item() / len(images)
        scale = scaler.get_scale()
        torch.nn.utils.clip_grad_norm_(parameters, max_norm * scale)
        scaler.step(optimizer)
        scaler.update()
        return total, scaler.get_scale() < scale

    rows = [step(*batch) for batch in batches]
    losses = [loss for loss, _ in rows]
    return losses, [i for i, (_, fell) in enumerate(rows) if fell]
