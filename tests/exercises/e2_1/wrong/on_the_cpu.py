# hint: Leave the model on its device
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    model.cpu()
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
    model.to(device)
    return losses
