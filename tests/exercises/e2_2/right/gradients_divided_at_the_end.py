def accumulate(model, microbatches):
    model.zero_grad()
    count = 0
    for images, labels in microbatches:
        cross_entropy(model(images), labels, reduction="sum").backward()
        count += labels.numel()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.grad.mul_(1 / count)
