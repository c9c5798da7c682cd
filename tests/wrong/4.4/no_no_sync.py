# hint: Each backward sends its gradients
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss / len(microbatches)).backward()
    optimizer.step()
