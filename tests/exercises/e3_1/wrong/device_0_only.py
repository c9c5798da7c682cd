# mistake: Only the gradient of the first chunk is there. Those of the other replicas
#   must be added to it.
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [model] + [copy.deepcopy(model).to(device) for device in devices[1:]]
    losses = []
    for replica, x, y, device in zip(
        replicas, images.chunk(n), labels.chunk(n), devices
    ):
        loss = cross_entropy(replica(x.to(device)), y.to(device), reduction="none")
        losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    return loss
