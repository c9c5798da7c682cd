# mistake: The forward pass stands outside no_sync, and there DDP decides whether the
#   next backward sends. Put forward and backward inside.
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
