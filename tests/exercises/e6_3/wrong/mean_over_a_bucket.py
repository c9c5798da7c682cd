# hint: [own ones far too small]
def noise_scale(rank, world_size, model, batches):
    own, average = [], []

    def hook(state, bucket):
        own.append(bucket.buffer().square().mean())
        return default_hooks.allreduce_hook(state, bucket)

    model.register_comm_hook(None, hook)
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
        average += [p.grad.square().sum() for p in model.parameters()]
    sums = torch.stack([sum(own), sum(average)])
    dist.all_reduce(sums)
    small, big = (sums / (world_size * len(batches))).tolist()
    b = len(labels)
    B = world_size * b
    signal = (B * big - b * small) / (B - b)
    noise = (small - big) / (1 / b - 1 / B)
    return noise / signal
