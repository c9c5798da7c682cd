# hint: zero_grad in the loop wipes out the others
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        model.zero_grad()
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
