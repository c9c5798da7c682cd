# %% answer-3-1
n = len(devices)

def parallel_step(model, images, labels, devices):
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    return plain_step(replicas[0], images, labels)

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
        for optimizer in optimizers:
            optimizer.step()
    return replicas

# %% answer-3-3
def bytes_sent(model, images, outputs, n):
    state = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    gradients = sum(p.numel() * p.element_size() for p in model.parameters())
    batch = images.numel() * images.element_size()
    results = outputs.numel() * outputs.element_size()
    share = batch // n + results // n
    return [(n - 1) * (state + share), 2 * (n - 1) * gradients / n]
