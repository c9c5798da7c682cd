# hint: [sent twice]
def noise_scale(rank, world_size, model, batches):
    own = {}
    for name, p in model.named_parameters():
        p.register_hook(lambda grad, name=name: own.update({name: grad.clone()}))
    small = big = 0.0
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
        grad = torch.cat([g.flatten() for g in own.values()])
        norm = grad.square().sum()
        dist.all_reduce(norm)
        small += norm.item() / world_size
        dist.all_reduce(grad)
        big += (grad / world_size).square().sum().item()
    b = len(labels)
    B = b * world_size
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
