# mistake: These are the norms of one gradient over all batches. Take the norms of
#   each batch, and add those up.
def noise_scale(rank, world_size, model, batches):
    model.zero_grad()
    with model.no_sync():
        for images, labels in batches:
            cross_entropy(model(images), labels).backward()
    grad = torch.cat([p.grad.flatten() for p in model.parameters()]) / len(batches)
    small = grad.square().sum()
    dist.all_reduce(small)
    dist.all_reduce(grad)
    small = small.item() / world_size
    big = (grad / world_size).square().sum().item()
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
