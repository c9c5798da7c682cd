# mistake: The optimizer must take one step for each list of micro-batches.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    images, labels = microbatches[-1]
    loss = cross_entropy(model(images), labels)
    (loss / len(microbatches)).backward()
