def bytes_sent(model, images, outputs, n, nccl):
    state = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    gradients = sum(p.numel() * p.element_size() for p in model.parameters())
    batch = images.numel() * images.element_size()
    results = outputs.numel() * outputs.element_size()
    share = batch // n + results // n
    if nccl:
        return [state + (n - 1) * share, 2 * (n - 1) * gradients / n]
    return [(n - 1) * (state + share), 2 * (n - 1) * gradients / n]
