# mistake: no_sync is a method: call it, `with model.no_sync():`.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync:
        for images, labels in microbatches[:-1]:
            (cross_entropy(model(images), labels) / len(microbatches)).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) / len(microbatches)).backward()
    optimizer.step()
