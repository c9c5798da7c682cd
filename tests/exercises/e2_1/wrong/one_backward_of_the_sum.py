# mistake: The gradient is right, but the graphs of all micro-batches wait in memory
#   until backward. Call backward right after each forward: gradients add up by
#   themselves.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            total += cross_entropy(model(x.to(device)), y.to(device)) / k
        total.backward()
        optimizer.step()
        losses.append(total.item())
    return losses
