# hint: [weights travel]
# same as: weights_every_step.py
def train_equal(model, batches, devices):
    # as DataParallel: device 0 steps, the others get its weights
    replicas = [model] + [copy.deepcopy(model).to(device) for device in devices[1:]]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in batches:
        n = len(devices)
        for replica, x, y, device in zip(
            replicas, images.chunk(n), labels.chunk(n), devices
        ):
            replica.zero_grad()
            cross_entropy(replica(x.to(device)), y.to(device)).backward()
        with torch.no_grad():
            for first, *others in zip(*(r.parameters() for r in replicas)):
                for other in others:
                    first.grad += other.grad.to(devices[0])
                first.grad /= n
        optimizer.step()
        with torch.no_grad():
            for first, *others in zip(*(r.parameters() for r in replicas)):
                for other in others:
                    other.copy_(first)
    return replicas
