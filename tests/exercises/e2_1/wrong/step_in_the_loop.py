# hint: [other steps]
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        total = 0.0
        for x, y in zip(images.chunk(num_microbatches), labels.chunk(num_microbatches)):
            optimizer.zero_grad()
            loss = cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item() / num_microbatches
        losses.append(total)
    return losses
