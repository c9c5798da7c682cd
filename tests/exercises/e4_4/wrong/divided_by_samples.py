# mistake: The loss of a micro-batch is a mean already. What is left is to divide it by
#   how many micro-batches there are, not by how many samples.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            (cross_entropy(model(images), labels) / len(images)).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) / len(images)).backward()
    optimizer.step()
