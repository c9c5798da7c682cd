# mistake: Only the last parameter counts: add up the squares of all of them.
def noise_scale(rank, world_size, model, batches):
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
        for p in model.parameters():
            norm = p.grad.square().sum()
            dist.all_reduce(p.grad)
            p.grad /= world_size
        dist.all_reduce(norm)
        small += norm.item() / world_size
        big += p.grad.square().sum().item()
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
