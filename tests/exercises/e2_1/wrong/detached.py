# mistake: This loss has no graph, so backward has nowhere to go: detach(), item() and
#   no_grad() cut it off. Call backward first, detach for logging after.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss = loss.detach()
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
