# mistake: An empty micro-batch, 0 samples, went through the model. How many has each?
#   `len(images) // num_microbatches`.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        size = len(batches) // num_microbatches
        total = 0
        for i in range(num_microbatches):
            x, y = images[i * size : (i + 1) * size], labels[i * size : (i + 1) * size]
            loss = cross_entropy(model(x.to(device)), y.to(device)) / num_microbatches
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
