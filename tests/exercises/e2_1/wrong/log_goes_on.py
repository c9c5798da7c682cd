# mistake: The sum goes on from batch to batch: start it at 0 for each batch.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    total = 0.0
    for images, labels in batches:
        optimizer.zero_grad()
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
