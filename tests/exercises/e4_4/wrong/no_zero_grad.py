# mistake: The gradients of earlier steps are still there: zero_grad is missing.
def accumulate(model, optimizer, microbatches):
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    images, labels = microbatches[-1]
    loss = cross_entropy(model(images), labels)
    (loss / len(microbatches)).backward()
    optimizer.step()
