def token_step(model, optimizer, microbatches):
    """All quiet; one all-reduce of gradients, loss and count."""
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = torch.zeros_like(p)
    total, count = 0.0, 0
    for tokens, targets in microbatches:
        real = targets != -100
        if not real.any():
            continue  # nobody waits for this one
        with model.no_sync():
            logits = model(tokens)[real]
            loss = cross_entropy(logits, targets[real], reduction="sum")
            loss.backward()
        total += loss.item()
        count += int(real.sum())
    numbers = torch.tensor([total, count], device=parameters[0].device)
    flat = torch.cat([*(p.grad.flatten() for p in parameters), numbers])
    dist.all_reduce(flat)
    *parts, numbers = flat.split([*(p.numel() for p in parameters), 2])
    total, count = numbers.tolist()
    for p, part in zip(parameters, parts):
        p.grad.copy_(part.view_as(p) / count)
    optimizer.step()
    return total / count
