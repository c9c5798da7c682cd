# hint: Weigh all of them
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches[:-1]:
        (cross_entropy(model(images), labels) / len(microbatches)).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) * len(labels) / total).backward()
