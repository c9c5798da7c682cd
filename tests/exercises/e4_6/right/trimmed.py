def token_step(model, optimizer, microbatches):
    """Trailing padding is cut off first; one rank alone has nothing to send."""
    alone = dist.get_world_size() == 1
    sums, n = [0.0, 0], len(microbatches)
    model.module.zero_grad()
    for i in range(n):
        tokens, targets = microbatches[i]
        used = (targets != -100).any(0).nonzero()
        end = used.max().item() + 1 if len(used) else 1
        x, y = tokens[:, :end], targets[:, :end]
        net = model.module if alone or i < n - 1 else model
        losses = cross_entropy(net(x).mT, y, reduction="none")
        losses.sum().backward()
        sums = [sums[0] + losses.sum().item(), sums[1] + (y >= 0).sum().item()]
    if not alone:
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, tuple(sums))
        sums = [sum(one) for one in zip(*every)]
    for p in model.parameters():
        p.grad *= dist.get_world_size() / sums[1]
    optimizer.step()
    return sums[0] / sums[1]
