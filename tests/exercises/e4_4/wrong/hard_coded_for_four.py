# mistake: You divide by 4, but their number differs: len(microbatches), not 4.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            (cross_entropy(model(images), labels) / 4).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) / 4).backward()
    optimizer.step()
