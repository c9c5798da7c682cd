# mistake: Only the last micro-batch counts: backward runs for its loss alone. Call it
#   after each forward pass.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
