# hint: as large as the first, or the largest
# same as: as_large_as_the_first.py
def accumulate(model, microbatches):
    total = len(microbatches) * max(len(y) for _, y in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
