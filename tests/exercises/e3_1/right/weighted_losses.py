def parallel_step(model, images, labels, devices):
    n, total = len(devices), 0.0
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    for i, (x, y) in enumerate(zip(images.chunk(n), labels.chunk(n))):
        x, y = x.to(devices[i]), y.to(devices[i])
        loss = cross_entropy(replicas[i](x), y) * (len(x) / len(images))
        loss.backward()
        total += loss.item()
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        grads = [p.grad.to(devices[0]) for p in copies if p.grad is not None]
        first.grad = torch.stack(grads).sum(0)
    return total
