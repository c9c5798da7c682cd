def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        images, labels = images.to(device), labels.to(device)
        size = len(images) // num_microbatches
        model.zero_grad()
        total = torch.zeros((), device=device)
        for first in range(0, len(images), size):
            part = slice(first, first + size)
            loss = cross_entropy(model(images[part]), labels[part])
            loss.backward()
            total += loss.detach()
        for parameter in model.parameters():
            parameter.grad /= num_microbatches
        optimizer.step()
        losses.append(total.item() / num_microbatches)
    return losses
