# hint: [weights travel]
# same as: weights_every_step.py
def train_equal(model, batches, devices):
    # SGD is linear in the gradient: the mean of the weights is the same
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    optimizers = [
        torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9)
        for replica in replicas
    ]
    for images, labels in batches:
        for replica, optimizer, x, y, device in zip(
            replicas, optimizers, images.chunk(n), labels.chunk(n), devices
        ):
            optimizer.zero_grad()
            cross_entropy(replica(x.to(device)), y.to(device)).backward()
            optimizer.step()
        with torch.no_grad():
            for first, *others in zip(*(r.parameters() for r in replicas)):
                mean = first.clone()
                for other in others:
                    mean += other.to(devices[0])
                mean /= n
                for parameter in (first, *others):
                    parameter.copy_(mean)
    return tuple(replicas)
