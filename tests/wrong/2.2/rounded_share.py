# hint: rounded down to 0 by `//`
def accumulate(model, microbatches):
    total = 1 + sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * (len(labels) // total)).backward()
