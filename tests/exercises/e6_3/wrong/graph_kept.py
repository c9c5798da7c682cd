# hint: [other work]
# same as: two_backwards.py
def noise_scale(rank, world_size, model, batches):
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        loss = cross_entropy(model(images), labels)
        own = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        norm = sum(g.square().sum() for g in own)
        dist.all_reduce(norm)
        small += norm.item() / world_size
        loss.backward()
        big += sum(p.grad.square().sum() for p in model.parameters()).item()
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
