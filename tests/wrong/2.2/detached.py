# hint: This loss has no graph
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss.detach() * len(labels) / total).backward()
