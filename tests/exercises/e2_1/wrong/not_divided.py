# mistake: The gradients are a sum over micro-batches, so each step is far too long.
#   Divide each loss by their number.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            total += loss.item() / k
        optimizer.step()
        losses.append(total)
    return losses
