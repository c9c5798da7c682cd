# mistake: The optimizer steps after each micro-batch, with gradients that have not
#   travelled. Step once, after the last one.
def accumulate(model, optimizer, microbatches):
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()
    optimizer.zero_grad()
    images, labels = microbatches[-1]
    cross_entropy(model(images), labels).backward()
    optimizer.step()
