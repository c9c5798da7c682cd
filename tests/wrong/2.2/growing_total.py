# hint: still growing while you divide by it
def accumulate(model, microbatches):
    total = 0
    for images, labels in microbatches:
        total += len(labels)
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
