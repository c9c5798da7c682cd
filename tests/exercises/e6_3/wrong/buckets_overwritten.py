# hint: bucket or a batch left out or overwritten
def noise_scale(rank, world_size, model, batches):
    norms = torch.zeros(2)

    def hook(state, bucket):
        norms[0] = bucket.buffer().square().sum().cpu()
        mean = bucket.buffer() / world_size
        future = dist.all_reduce(mean, async_op=True).get_future()

        def finish(future):
            norms[1] = mean.square().sum().cpu()
            return mean

        return future.then(finish)

    model.register_comm_hook(None, hook)
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
    norms = norms.to(images.device)
    dist.all_reduce(norms)
    small, big = (norms / (world_size * len(batches))).tolist()
    b = len(labels)
    B = world_size * b
    signal = (B * big - b * small) / (B - b)
    noise = (small - big) / (1 / b - 1 / B)
    return noise / signal
