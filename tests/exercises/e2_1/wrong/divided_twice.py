# mistake: You divide by k twice. Divide the losses or the gradients, not both.
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
        for parameter in model.parameters():
            parameter.grad /= k
        optimizer.step()
        losses.append(total)
    return losses
