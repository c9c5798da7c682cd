# hint: Each backward sends its gradients
# same as: no_no_sync.py
def accumulate(model, optimizer, microbatches):
    for images, labels in microbatches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
