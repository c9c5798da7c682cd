# mistake: 8 samples went through the model at once, not 6: `split(k)` gives pieces of k
#   samples, `chunk(k)` gives k pieces.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0
        for x, y in zip(images.split(num_microbatches), labels.split(num_microbatches)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / num_microbatches
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
