def train(model, optimizer, batches, num_microbatches):
    """Slices with a step, gradients cleared after each step."""
    device = next(model.parameters()).device
    losses = []
    for images, labels in batches:
        means = []
        for i in range(num_microbatches):
            x = images[i::num_microbatches].to(device, non_blocking=True)
            y = labels[i::num_microbatches].to(device, non_blocking=True)
            loss = torch.nn.CrossEntropyLoss()(model(x), y)
            loss.div(num_microbatches).backward()
            means.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(torch.stack(means).mean().item())
    return losses
