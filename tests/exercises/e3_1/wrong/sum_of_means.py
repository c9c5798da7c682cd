# mistake: These are the means of the chunks, added up: the gradient is as many times
#   too large as there are devices. The mean over all samples is wanted.
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    losses = []
    for replica, x, y, device in zip(
        replicas, images.chunk(n), labels.chunk(n), devices
    ):
        loss = cross_entropy(replica(x.to(device)), y.to(device))
        loss.backward()
        losses.append(loss.item())
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        first.grad = sum(p.grad.to(devices[0]) for p in copies if p.grad is not None)
    return sum(losses) / len(losses)
