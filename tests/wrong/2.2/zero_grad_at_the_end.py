# hint: Call backward for each micro-batch, and leave the gradients there
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
    model.zero_grad()
