# hint: one device does all the work
def parallel_step(model, images, labels, devices):
    loss = cross_entropy(model(images), labels)
    loss.backward()
    return loss
