# mistake: Each whole batch goes through the model at once. Cut it into
#   `num_microbatches` parts, and put one after the other through the model.
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
