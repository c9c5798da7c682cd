# mistake: Call step on `optimizer`, which is given, once for each batch. A step by hand
#   or by an optimizer of your own knows neither its learning rate nor its momentum.
def train(model, optimizer, batches, num_microbatches):
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        total = 0
        for x, y in zip(images.chunk(num_microbatches), labels.chunk(num_microbatches)):
            loss = cross_entropy(model(x.to(device)), y.to(device)) / num_microbatches
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses
