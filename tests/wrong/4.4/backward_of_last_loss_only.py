# hint: Only the last micro-batch counts
# same as: only_the_last_one.py
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
