# hint: one device does all the work
# same as: all_on_device_0.py
def parallel_step(model, images, labels, devices):
    n, mean = len(devices), 0
    for x, y in zip(images.chunk(n), labels.chunk(n)):
        loss = cross_entropy(model(x), y) * len(x) / len(images)
        loss.backward()
        mean += loss.item()
    return mean
