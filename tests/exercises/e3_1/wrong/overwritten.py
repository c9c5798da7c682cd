# mistake: Only the last replica's gradient is there: each one overwrites what was
#   before. Add them up.
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    mean = 0
    for replica, x, y, device in zip(
        replicas, images.chunk(n), labels.chunk(n), devices
    ):
        loss = cross_entropy(replica(x.to(device)), y.to(device))
        (loss * len(x) / len(images)).backward()
        mean += loss.item() * len(x) / len(images)
        for mine, other in zip(model.parameters(), replica.parameters()):
            mine.grad = other.grad.to(devices[0])
    return mean
