# mistake: Each replica needs its own chunk of the batch, not the whole batch.
def train_equal(model, batches, devices):
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    optimizers = [
        torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9)
        for replica in replicas
    ]
    for images, labels in batches:
        for i, (replica, device) in enumerate(zip(replicas, devices)):
            replica.zero_grad()
            x = images.to(device).chunk(len(devices))[i]
            y = labels.to(device).chunk(len(devices))[i]
            cross_entropy(replica(x), y).backward()
        for first, *others in zip(*(r.parameters() for r in replicas)):
            for other in others:
                first.grad += other.grad.to(devices[0])
            first.grad /= len(devices)
            for other in others:
                other.grad = first.grad.to(other.device)
        for optimizer in optimizers:
            optimizer.step()
    return replicas
