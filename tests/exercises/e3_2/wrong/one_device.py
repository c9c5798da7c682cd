# mistake: The numbers are right, but one device does all the work. Each device needs
#   a copy of the model and its own chunk of the batch.
def train_equal(model, batches, devices):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    return [copy.deepcopy(model).to(device) for device in devices]
