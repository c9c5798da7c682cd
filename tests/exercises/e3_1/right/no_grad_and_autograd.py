def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model) for _ in devices]
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = torch.zeros_like(p)
    mean = 0
    for device, replica, x, y in zip(
        devices, replicas, images.chunk(n), labels.chunk(n)
    ):
        replica.to(device)
        loss = cross_entropy(replica(x.to(device)), y.to(device))
        gradients = torch.autograd.grad(loss, list(replica.parameters()))
        share = len(x) / len(images)
        with torch.no_grad():
            for p, g in zip(parameters, gradients):
                p.grad.add_(g.to(devices[0]), alpha=share)
        mean += share * loss.item()
    return mean
