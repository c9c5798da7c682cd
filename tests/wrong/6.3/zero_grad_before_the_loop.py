# hint: Gradients of earlier batches
# same as: zero_grad_forgotten.py
def noise_scale(rank, world_size, model, batches):
    small = big = 0.0
    model.zero_grad()
    for images, labels in batches:
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
        grad = torch.cat([p.grad.flatten() for p in model.parameters()])
        norm = grad.square().sum()
        dist.all_reduce(norm)
        dist.all_reduce(grad)
        small += norm.item() / world_size
        big += (grad / world_size).square().sum().item()
    b = len(batches[0][1])
    B = b * world_size
    signal = (B * big - b * small) / (B - b)
    noise = (small - big) / (1 / b - 1 / B)
    return noise / signal
