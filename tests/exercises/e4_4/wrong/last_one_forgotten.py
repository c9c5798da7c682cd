# mistake: The last micro-batch never goes through the model, so no gradient ever
#   travels. Run it after the others, outside of no_sync.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    optimizer.step()
