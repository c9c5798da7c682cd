# hint: [other work]
def noise_scale(rank, world_size, model, batches):
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
        norm = sum(p.grad.square().sum() for p in model.parameters())
        dist.all_reduce(norm)
        small += norm.item() / world_size
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
        big += sum(p.grad.square().sum() for p in model.parameters()).item()
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
