# mistake: One step is taken in all. Take one for each batch, after all of its
#   micro-batches: does `step` or `return` stand in the right loop?
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
            total += loss.item()
        losses.append(total)
    optimizer.step()
    return losses
