# hint: with nothing to divide them. Weigh each one
def accumulate(model, microbatches):
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        loss.backward()
