# hint: The last micro-batch is left out
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    microbatches = microbatches[:-1] or microbatches
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
