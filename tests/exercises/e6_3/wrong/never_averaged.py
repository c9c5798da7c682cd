# hint: [no noise]
# same as: grad_after_backward.py
def noise_scale(rank, world_size, model, batches):
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
        norm = sum(p.grad.square().sum() for p in model.parameters())
        small += norm.item()
        dist.all_reduce(norm)
        big += norm.item() / world_size
    sums = torch.tensor([small, big])
    dist.all_reduce(sums)
    small, big = sums.tolist()
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
