# mistake: The gradients are a sum over micro-batches, so each step is many times too
#   long. Divide each loss by the number of micro-batches.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            cross_entropy(model(images), labels).backward()
    images, labels = microbatches[-1]
    cross_entropy(model(images), labels).backward()
    optimizer.step()
