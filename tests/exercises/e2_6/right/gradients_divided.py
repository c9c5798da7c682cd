def train_in_16_bits(model, optimizer, scaler, batches, num_microbatches, max_norm):
    """Gradients are divided once, before clipping; a hook notes the steps."""
    device = next(model.parameters()).device
    stepped = []
    hook = optimizer.register_step_post_hook(lambda *_: stepped.append(number))
    amp = torch.autocast(device_type=device.type, dtype=torch.float16)
    losses = []
    for number, (images, labels) in enumerate(batches):
        size = len(images) // num_microbatches
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for x, y in zip(images.split(size), labels.split(size)):
            with amp:
                logits = model(x.to(device))
            loss = cross_entropy(logits.float(), y.to(device))
            scaler.scale(loss).backward()
            total += loss.detach()
        scaler.unscale_(optimizer)
        for parameter in model.parameters():
            parameter.grad /= num_microbatches
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False)
        scaler.step(optimizer)
        scaler.update()
        losses.append(total.item() / num_microbatches)
    hook.remove()
    return tuple(losses), sorted(set(range(len(batches))) - set(stepped))
