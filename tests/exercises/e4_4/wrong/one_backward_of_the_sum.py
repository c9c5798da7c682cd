# hint: [late backward]
def accumulate(model, optimizer, microbatches):
    losses = [cross_entropy(model(images), labels) for images, labels in microbatches]
    optimizer.zero_grad()
    torch.stack(losses).mean().backward()
    optimizer.step()
