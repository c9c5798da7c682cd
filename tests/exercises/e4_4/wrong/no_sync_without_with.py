# hint: Each backward sends its gradients
# same as: no_no_sync.py
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    model.no_sync()
    for images, labels in microbatches[:-1]:
        (cross_entropy(model(images), labels) / len(microbatches)).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) / len(microbatches)).backward()
    optimizer.step()
