# hint: the gradient of a sum over samples
def accumulate(model, microbatches):
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels)).backward()
