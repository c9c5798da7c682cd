# hint: moves the model itself
# same as: model_moved.py
def parallel_step(model, images, labels, devices):
    n, mean = len(devices), 0
    for x, y, device in zip(images.chunk(n), labels.chunk(n), devices):
        model.to(device)
        loss = cross_entropy(model(x.to(device)), y.to(device)) * len(x) / len(images)
        loss.backward()
        mean += loss.item()
    return mean
