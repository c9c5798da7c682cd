# mistake: A gradient comes in several buckets, one call of the hook for each. The
#   squared norms of all buckets are added up: +=.
# same as: buckets_overwritten.py
def noise_scale(rank, world_size, model, batches):
    local = {}

    def hook(state, bucket):
        local["norm"] = bucket.buffer().square().sum()
        mean = bucket.buffer() / world_size
        future = dist.all_reduce(mean, async_op=True).get_future()
        return future.then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)
    norms = torch.zeros(2)
    averages = []
    for images, labels in batches:
        model.zero_grad()
        cross_entropy(model(images), labels).backward()
        norms[0] += local["norm"].cpu()
        averages.append(sum(p.grad.square().sum().cpu() for p in model.parameters()))
    norms[1] = sum(averages)
    norms = norms.to(images.device)
    dist.all_reduce(norms)
    small, big = (norms / (world_size * len(batches))).tolist()
    b = len(labels)
    B = world_size * b
    return (small - big) / (1 / b - 1 / B) / ((B * big - b * small) / (B - b))
