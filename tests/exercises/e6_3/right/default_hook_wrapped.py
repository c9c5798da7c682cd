from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook


def noise_scale(rank, world_size, model, batches):
    group = dist.group.WORLD
    small = []

    def hook(state, bucket):
        small.append(bucket.buffer().norm().pow(2))
        return allreduce_hook(state, bucket)

    model.register_comm_hook(group, hook)
    G_b = G_B = 0
    for X, y in batches:
        model.zero_grad()
        loss = cross_entropy(model(X), y)
        loss.backward()
        G_B = G_B + sum((p.grad**2).sum() for p in model.parameters())
    G_b = sum(small)
    both = torch.stack([G_b, G_B]) / world_size
    dist.all_reduce(both)
    G_b, G_B = both[0].item(), both[1].item()
    b, B = len(y), len(y) * world_size
    G2 = 1 / (B - b) * (B * G_B - b * G_b)
    S = 1 / (1 / b - 1 / B) * (G_b - G_B)
    return S / G2
