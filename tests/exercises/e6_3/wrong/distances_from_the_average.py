# mistake: The distances from the average are too short, as it was made of the same
#   gradients: divide by world_size - 1, or by (1/b - 1/B).
def noise_scale(rank, world_size, model, batches):
    spread = square = 0.0
    for images, labels in batches:
        model.zero_grad()
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
        own = torch.cat([p.grad.flatten() for p in model.parameters()])
        mean = own.clone()
        dist.all_reduce(mean)
        mean /= world_size
        distance = (own - mean).square().sum()
        dist.all_reduce(distance)
        spread += len(labels) * distance.item() / world_size
        square += mean.square().sum().item()
    b = len(labels)
    B = b * world_size
    # |G_b|² is |G_B|² and the squared distance
    small = square + spread / b
    return spread / ((B * square - b * small) / (B - b))
