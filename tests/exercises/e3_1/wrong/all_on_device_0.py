# mistake: The numbers are right, but one device does all the work. Each device needs a
#   copy of the model and its own chunk of the batch.
def parallel_step(model, images, labels, devices):
    loss = cross_entropy(model(images), labels)
    loss.backward()
    return loss
