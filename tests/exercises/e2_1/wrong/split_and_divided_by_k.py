# hint: [other parts]
# same as: split_for_chunk.py
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
