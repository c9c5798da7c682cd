# hint: [settings]
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for g in optimizer.param_groups:
        g["lr"] /= num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0
        for x, y in zip(images.chunk(num_microbatches), labels.chunk(num_microbatches)):
            loss = cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total / num_microbatches)
    return losses
