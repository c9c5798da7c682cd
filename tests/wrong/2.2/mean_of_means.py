# hint: a sample of a short one counts more
def accumulate(model, microbatches):
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss / len(microbatches)).backward()
