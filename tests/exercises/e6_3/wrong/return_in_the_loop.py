# mistake: Only one batch counts: go through all of them before you divide or return.
# same as: last_batch.py
def noise_scale(rank, world_size, model, batches):
    b = len(batches[0][1])
    B = b * world_size
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
        grad = torch.cat([p.grad.flatten() for p in model.parameters()])
        norm = grad.square().sum()
        dist.all_reduce(norm)
        dist.all_reduce(grad)
        small += norm.item() / world_size
        big += (grad / world_size).square().sum().item()
        signal = (B * big - b * small) / (B - b)
        noise = (small - big) / (1 / b - 1 / B)
        return noise / signal
