# mistake: 48 samples went through the model at once without a graph. Is that for the
#   log? The micro-batches' own losses give it for nothing.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        with torch.no_grad():
            losses.append(
                cross_entropy(model(images.to(device)), labels.to(device)).item()
            )
        for x, y in zip(images.chunk(num_microbatches), labels.chunk(num_microbatches)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / num_microbatches
            loss.backward()
        optimizer.step()
    return losses
