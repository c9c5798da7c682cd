# hint: no optimizer step here
def accumulate(model, microbatches):
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(model(images), labels)
        (loss * len(labels) / total).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
