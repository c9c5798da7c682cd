def noise_scale(rank, world_size, model, batches):
    """tr(Σ) as a variance over ranks, without DDP's all-reduce."""
    net = model.module
    traces, squares = [], []
    for x, y in batches:
        grads = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
        spread = squared = 0
        for g in grads:
            mean = g.clone()
            dist.all_reduce(mean, op=dist.ReduceOp.SUM)
            mean /= world_size
            spread = spread + (g - mean).pow(2).sum()
            squared = squared + mean.pow(2).sum()
        dist.all_reduce(spread)
        traces.append(len(y) * spread / (world_size - 1))
        squares.append(squared)
    trace, square = torch.stack(traces).mean(), torch.stack(squares).mean()
    # the average of B images has a noise of tr(Σ) / B
    return trace / (square - trace / (world_size * len(y)))
