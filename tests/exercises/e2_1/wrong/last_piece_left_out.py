# mistake: The last micro-batch is left out. `chunk(k)` gives k pieces; step after all
#   of them.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in list(zip(images.chunk(k), labels.chunk(k)))[:-1]:
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
