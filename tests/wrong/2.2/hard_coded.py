# hint: You divide by 30
def accumulate(model, microbatches):
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / 30).backward()
