# mistake: One number for each batch, not for each micro-batch: add them up.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
            losses.append(loss.item() * k)
        optimizer.step()
    return losses
