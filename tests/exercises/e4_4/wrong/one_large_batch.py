# hint: [whole batch]
def accumulate(model, optimizer, microbatches):
    images, labels = (torch.cat(part) for part in zip(*microbatches))
    optimizer.zero_grad()
    cross_entropy(model(images), labels).backward()
    optimizer.step()
