# hint: Each backward sends its gradients
# same as: no_no_sync.py
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    quiet = model.no_sync  # noqa: F841
    for images, labels in microbatches:
        (cross_entropy(model(images), labels) / len(microbatches)).backward()
    optimizer.step()
