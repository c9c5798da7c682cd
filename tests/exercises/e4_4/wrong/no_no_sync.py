# mistake: Each backward sends its gradients, for DDP decides in the forward pass. Run
#   all micro-batches but the last, forward and backward, under
#   `with model.no_sync():`.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss / len(microbatches)).backward()
    optimizer.step()
