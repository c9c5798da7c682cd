# mistake: Each backward sends its gradients. Run all micro-batches but the last under
#   model.no_sync().
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss / len(microbatches)).backward()
    optimizer.step()
