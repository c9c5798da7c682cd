# hint: as large as the first, or the largest
def accumulate(model, microbatches):
    total = len(microbatches) * len(microbatches[0][1])
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
