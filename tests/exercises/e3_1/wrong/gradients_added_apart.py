# hint: [apart]
# same as: model_moved.py
def parallel_step(model, images, labels, devices):
    n, total = len(devices), 0
    replicas = [model] + [copy.deepcopy(model).to(device) for device in devices[1:]]
    for replica, x, y, device in zip(
        replicas, images.chunk(n), labels.chunk(n), devices
    ):
        loss = cross_entropy(replica(x.to(device)), y.to(device))
        (loss * len(x) / len(images)).backward()
        total += loss.item() * len(x) / len(images)
    for first, *others in zip(*(r.parameters() for r in replicas)):
        for other in others:
            first.grad += other.grad
    return total
