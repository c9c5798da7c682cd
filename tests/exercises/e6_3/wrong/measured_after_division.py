# hint: it is a sum over ranks still
# same as: sum_for_average.py
def noise_scale(rank, world_size, model, batches):
    norms = torch.zeros(2)
    averages = []

    def hook(state, bucket):
        mean = bucket.buffer().div_(world_size)
        norms[0] += mean.square().sum().cpu()
        future = dist.all_reduce(mean, async_op=True).get_future()

        def finish(future):
            averages.append(mean.square().sum().cpu())
            return mean

        return future.then(finish)

    model.register_comm_hook(None, hook)
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
    norms[1] = sum(averages)
    norms = norms.to(images.device)
    dist.all_reduce(norms)
    small, big = (norms / (world_size * len(batches))).tolist()
    b = len(labels)
    B = world_size * b
    signal = (B * big - b * small) / (B - b)
    noise = (small - big) / (1 / b - 1 / B)
    return noise / signal
