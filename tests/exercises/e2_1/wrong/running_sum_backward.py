# mistake: This graph was used up by a backward before. Each micro-batch needs a forward
#   pass of its own; a running sum of losses brings old graphs back.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            total = total + cross_entropy(model(x.to(device)), y.to(device)) / k
            total.backward()
        optimizer.step()
        losses.append(total.item())
    return losses
