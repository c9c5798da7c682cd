# hint: No sum of the mean losses of the chunks has this gradient.
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    for replica in replicas:
        for layer in replica:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    losses = []
    for replica, x, y, device in zip(
        replicas, images.chunk(n), labels.chunk(n), devices
    ):
        loss = cross_entropy(replica(x.to(device)), y.to(device), reduction="none")
        losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        first.grad = sum(p.grad.to(devices[0]) for p in copies if p.grad is not None)
    return loss
