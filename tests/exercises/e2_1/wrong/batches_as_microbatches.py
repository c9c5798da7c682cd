# mistake: Each pair in `batches` is a whole batch, not a micro-batch. Cut it into
#   `num_microbatches` parts, put one after the other through the model, then step.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    for i, (images, labels) in enumerate(batches, start=1):
        loss = cross_entropy(model(images.to(device)), labels.to(device))
        (loss / num_microbatches).backward()
        if i % num_microbatches == 0:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses
