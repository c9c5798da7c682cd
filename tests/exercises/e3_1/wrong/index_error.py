# hint: 10 samples give 3, 3, 3 and 1
def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    xs, ys = images.split(len(images) // n), labels.split(len(images) // n)
    losses = []
    for i in range(len(xs)):
        x, y = xs[i].to(devices[i]), ys[i].to(devices[i])
        loss = cross_entropy(replicas[i](x), y, reduction="none")
        losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        first.grad = sum(p.grad.to(devices[0]) for p in copies if p.grad is not None)
    return loss
