# mistake: The gradients of earlier steps are still there: zero_grad is missing. Call it
#   once for each batch.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
