# hint: Each pair in `batches` is a whole batch
# same as: batches_as_microbatches.py
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
