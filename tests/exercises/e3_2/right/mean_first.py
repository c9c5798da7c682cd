def train_equal(model, batches, devices):
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    optimizers = [
        torch.optim.SGD(r.parameters(), lr=0.1, momentum=0.9) for r in replicas
    ]
    for images, labels in batches:
        chunks = [
            [part.to(device) for part in pair]
            for *pair, device in zip(
                images.chunk(len(devices)), labels.chunk(len(devices)), devices
            )
        ]
        for replica, (x, y) in zip(replicas, chunks):
            loss = cross_entropy(replica(x), y, reduction="sum") / len(images)
            loss.backward()
        for parameters in zip(*(r.parameters() for r in replicas)):
            total = torch.stack([p.grad.to(devices[0]) for p in parameters]).sum(0)
            for p in parameters:
                p.grad = total.to(p.device, copy=True)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return replicas
