# mistake: Only the last two micro-batches count: zero_grad under no_sync wipes out
#   those before them. Call it once per step.
def accumulate(model, optimizer, microbatches):
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    images, labels = microbatches[-1]
    loss = cross_entropy(model(images), labels)
    (loss / len(microbatches)).backward()
    optimizer.step()
