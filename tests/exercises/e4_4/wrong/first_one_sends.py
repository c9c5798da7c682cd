# mistake: The gradients travel with micro-batch 1, and what is added later stays on its
#   rank. The last one must send.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    images, labels = microbatches[0]
    (cross_entropy(model(images), labels) / len(microbatches)).backward()
    with model.no_sync():
        for images, labels in microbatches[1:]:
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    optimizer.step()
