# hint: times too long. Divide each loss
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            cross_entropy(model(images), labels).backward()
    images, labels = microbatches[-1]
    cross_entropy(model(images), labels).backward()
    optimizer.step()
