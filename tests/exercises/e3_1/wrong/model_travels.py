# mistake: vgpu:1 sends to vgpu:2. A model that travels on lets the devices work one
#   after the other: give each its own copy.
def parallel_step(model, images, labels, devices):
    n, mean = len(devices), 0
    for x, y, device in zip(images.chunk(n), labels.chunk(n), devices):
        model.to(device)
        loss = cross_entropy(model(x.to(device)), y.to(device)) * len(x) / len(images)
        loss.backward()
        mean += loss.item()
    model.to(devices[0])
    return mean
