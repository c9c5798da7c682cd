# mistake: Samples are missing: len(images) // len(devices) rows for each leave the rest
#   out. chunk leaves out none.
def parallel_step(model, images, labels, devices):
    n = len(devices)
    size = len(images) // n
    replicas = [copy.deepcopy(model).to(device) for device in devices]
    losses = []
    for i, (replica, device) in enumerate(zip(replicas, devices)):
        mine = slice(i * size, (i + 1) * size)
        x, y = images[mine].to(device), labels[mine].to(device)
        losses.append(cross_entropy(replica(x), y).to(devices[0]))
    loss = torch.stack(losses).mean()
    loss.backward()
    for first, *copies in zip(model.parameters(), *(r.parameters() for r in replicas)):
        first.grad = sum(p.grad.to(devices[0]) for p in copies)
    return loss
