# mistake: DDP divides by the number of ranks already. Divide the loss by the number of
#   micro-batches alone.
def accumulate(model, optimizer, microbatches):
    parts = len(microbatches) * dist.get_world_size()
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            (cross_entropy(model(images), labels) / parts).backward()
    images, labels = microbatches[-1]
    (cross_entropy(model(images), labels) / parts).backward()
    optimizer.step()
