# hint: [sent]
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    half = len(microbatches) // 2
    with model.no_sync():
        for images, labels in microbatches[:half]:
            (cross_entropy(model(images), labels) / len(microbatches)).backward()
    for images, labels in microbatches[half:]:
        (cross_entropy(model(images), labels) / len(microbatches)).backward()
    optimizer.step()
