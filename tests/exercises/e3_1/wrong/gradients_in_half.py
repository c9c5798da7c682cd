# hint: This is nearly right. Is something rounded
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    parts = zip(replicas, images.chunk(n), labels.chunk(n), devices)
    losses = []
    for replica, x, y, device in parts:
        predicted = replica(x.to(device))
        loss = cross_entropy(predicted, y.to(device), reduction="none")
        losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    used = replicas[: len(losses)]
    for mine, *copies in zip(*(m.parameters() for m in (model, *used))):
        mine.grad = sum(copied.grad.half().to(devices[0]).float() for copied in copies)
    return loss
