def train_in_16_bits(model, optimizer, scaler, batches, num_microbatches, max_norm):
    """One long loop; the step is left out by hand where a gradient is not finite."""
    device, k = next(model.parameters()).device, num_microbatches
    losses, left_out = [], []
    pieces = [piece for b in batches for piece in zip(*(part.chunk(k) for part in b))]
    for i, (x, y) in enumerate(pieces, start=1):
        with torch.autocast(device.type, torch.float16):
            z = model(x.to(device))
            loss = (z.logsumexp(1) - z.gather(1, y.to(device)[:, None])[:, 0]).mean()
        (loss * (scaler.scale(torch.ones((), device=device)) / k)).backward()
        losses.append(loss.item())
        if i % k == 0:
            scaler.unscale_(optimizer)
            if all(p.grad.isfinite().all() for p in model.parameters()):
                norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
                for p in model.parameters():
                    p.grad *= (max_norm / norm).clamp(max=1.0)
                optimizer.step()
            else:
                left_out.append(i // k - 1)
            scaler.update()
            optimizer.zero_grad()
    means = [sum(losses[i : i + k]) / k for i in range(0, len(losses), k)]
    return means, left_out
