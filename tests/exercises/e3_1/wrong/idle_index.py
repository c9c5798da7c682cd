# hint: give 3, 3, 3 and 0 to 4 devices
# same as: idle_replica.py
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    losses = []
    for i in range(n):
        x, y = images.chunk(n)[i].to(devices[i]), labels.chunk(n)[i].to(devices[i])
        loss = cross_entropy(replicas[i](x), y, reduction="none")
        losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        first.grad = sum(p.grad.to(devices[0]) for p in copies)
    return loss
