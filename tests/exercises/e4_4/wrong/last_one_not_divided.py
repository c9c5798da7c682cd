# mistake: Divide the last loss, too: now it counts as much as a whole batch.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            (cross_entropy(model(images), labels) / len(microbatches)).backward()
    images, labels = microbatches[-1]
    cross_entropy(model(images), labels).backward()
    optimizer.step()
