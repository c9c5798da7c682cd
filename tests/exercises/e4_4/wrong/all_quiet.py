# mistake: No all-reduce follows any forward pass, so the gradients stay on their rank.
#   Call `model`, not model.module, and run the last micro-batch of a step outside of
#   no_sync.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches:
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    optimizer.step()
