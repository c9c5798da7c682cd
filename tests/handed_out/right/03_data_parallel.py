# %% answer-3-1
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
        mine.grad = sum(copied.grad.to(devices[0]) for copied in copies)
    return loss


# %% answer-3-2
def train_equal(model, batches, devices):
    n = len(devices)
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    optimizers = [
        torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9)
        for replica in replicas
    ]
    for images, labels in batches:
        parts = zip(images.chunk(n), labels.chunk(n))
        for replica, device, (x, y) in zip(replicas, devices, parts):
            replica.zero_grad()
            cross_entropy(replica(x.to(device)), y.to(device)).backward()
        for first, *others in zip(*(r.parameters() for r in replicas)):
            for other in others:
                first.grad += other.grad.to(devices[0])
            first.grad /= n
            for other in others:
                other.grad = first.grad.to(other.device)
        for optimizer in optimizers:
            optimizer.step()
    return replicas


# %% answer-3-3
def bytes_sent(model, images, outputs, n):
    weights = sum(p.nbytes for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    share = (images.nbytes + outputs.nbytes) / n
    data_parallel = (n - 1) * (weights + buffers + share)
    ddp = 2 * (n - 1) / n * weights
    return data_parallel, ddp
