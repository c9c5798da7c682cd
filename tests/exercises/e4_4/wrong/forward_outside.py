# hint: Each backward sends its gradients
# same as: no_no_sync.py
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    for i, (images, labels) in enumerate(microbatches):
        loss = cross_entropy(model(images), labels) / len(microbatches)
        if i < len(microbatches) - 1:
            with model.no_sync():
                loss.backward()
        else:
            loss.backward()
    optimizer.step()
