def noise_scale(rank, world_size, model, batches):
    sums = {"small": 0.0, "big": 0.0}

    def hook(state, bucket):
        gradient = bucket.buffer()
        sums["small"] += float((gradient**2).sum())
        dist.all_reduce(gradient)
        gradient /= world_size
        sums["big"] += float((gradient**2).sum())
        future = torch.futures.Future()
        future.set_result(gradient)
        return future

    model.register_comm_hook(state=None, hook=hook)
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels, reduction="mean").backward()
    every = [None] * world_size
    dist.all_gather_object(every, sums["small"])
    small, big = sum(every) / world_size, sums["big"]
    b = labels.size(0)
    B = b * world_size
    return ((small - big) / (1 / b - 1 / B)) / ((B * big - b * small) / (B - b))
