# mistake: Every device gets the whole batch and then cuts it. Cut first, on device 0,
#   and send each device its own chunk.
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    losses = []
    for i, (replica, device) in enumerate(zip(replicas, devices)):
        parts = images.to(device).chunk(n), labels.to(device).chunk(n)
        if i < len(parts[0]):
            x, y = parts[0][i], parts[1][i]
            loss = cross_entropy(replica(x), y, reduction="none")
            losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        first.grad = sum(p.grad.to(devices[0]) for p in copies if p.grad is not None)
    return loss
