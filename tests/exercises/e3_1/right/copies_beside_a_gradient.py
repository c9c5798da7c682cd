def parallel_step(model, images, labels, devices):
    n, mean = len(devices), 0
    for device, x, y in zip(devices, images.chunk(n), labels.chunk(n)):
        replica = copy.deepcopy(model).to(device)
        replica.zero_grad()
        loss = cross_entropy(replica(x.to(device)), y.to(device)) * len(x) / len(images)
        loss.backward()
        for mine, other in zip(model.parameters(), replica.parameters()):
            home = other.grad.to(devices[0])
            mine.grad = home if mine.grad is None else mine.grad + home
        mean += loss.item()
    return mean
