# hint: The shares add up to 1
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total / len(microbatches)).backward()
