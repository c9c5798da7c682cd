# mistake: `.grad` is divided after every micro-batch, so what is in it already is
#   divided again and again. Divide once, before the step.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            for p in model.parameters():
                p.grad /= k
            total += loss.item() / k
        optimizer.step()
        losses.append(total)
    return losses
