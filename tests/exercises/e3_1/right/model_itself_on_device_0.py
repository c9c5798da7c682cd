def parallel_step(model, images, labels, devices):
    n = len(devices)
    replicas = [model] + [copy.deepcopy(model).to(device) for device in devices[1:]]
    losses = []
    for replica, x, y, device in zip(
        replicas, images.tensor_split(n), labels.tensor_split(n), devices
    ):
        loss = cross_entropy(replica(x.to(device)), y.to(device), reduction="none")
        losses.append(loss.to(devices[0]))
    loss = torch.cat(losses).mean()
    loss.backward()
    for replica in replicas[1:]:
        for mine, other in zip(model.parameters(), replica.parameters()):
            mine.grad += other.grad.to(devices[0])
    print(f"loss {loss.item():.3f}")
    return loss.detach()
