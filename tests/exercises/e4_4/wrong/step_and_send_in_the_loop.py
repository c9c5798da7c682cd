# hint: The optimizer steps after each micro-batch
# same as: step_in_the_loop.py
def accumulate(model, optimizer, microbatches):
    for images, labels in microbatches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
