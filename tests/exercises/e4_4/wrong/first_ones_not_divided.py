# mistake: Only the last loss is divided. Divide those under no_sync, too.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            cross_entropy(model(images), labels).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) / len(microbatches)).backward()
    optimizer.step()
