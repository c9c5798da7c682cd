# hint: [memory]
# same as: graph_retained.py
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    losses = []
    k = num_microbatches
    for images, labels in batches:
        optimizer.zero_grad()
        total = []
        for x, y in zip(images.chunk(k), labels.chunk(k)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / k
            loss.backward(retain_graph=True)
            total.append(loss)
        optimizer.step()
        losses.append(sum(total).item())
    return losses
