# hint: [no noise]
def noise_scale(rank, world_size, model, batches):
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
        norm = sum(p.grad.square().sum() for p in model.parameters())
        big += norm.item()
        dist.all_reduce(norm)
        small += norm.item() / world_size
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
