# mistake: The model is on a device of its own: move each micro-batch there,
#   `images.to(device)`.
def train(model, optimizer, batches, num_microbatches):
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x), y) / k
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
