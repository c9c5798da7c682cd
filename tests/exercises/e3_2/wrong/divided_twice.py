# mistake: The mean is divided by the number of devices twice.
def train_equal(model, batches, devices):
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    optimizers = [
        torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9)
        for replica in replicas
    ]
    for images, labels in batches:
        parts = zip(images.chunk(len(devices)), labels.chunk(len(devices)))
        for replica, device, (x, y) in zip(replicas, devices, parts):
            replica.zero_grad()
            cross_entropy(replica(x.to(device)), y.to(device)).div(
                len(devices)
            ).backward()
        for first, *others in zip(*(r.parameters() for r in replicas)):
            for other in others:
                first.grad += other.grad.to(devices[0])
            first.grad /= len(devices)
            for other in others:
                other.grad = first.grad.to(other.device)
        for optimizer in optimizers:
            optimizer.step()
    return replicas
