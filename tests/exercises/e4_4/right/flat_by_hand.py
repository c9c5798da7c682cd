def accumulate(model, optimizer, microbatches):
    """All quiet, then one all-reduce of everything."""
    optimizer.zero_grad()
    for images, labels in microbatches:
        with model.no_sync():
            cross_entropy(model(images), labels).backward()
    gradients = [p.grad for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size() * len(microbatches)
    for g, new in zip(gradients, flat.split([g.numel() for g in gradients])):
        g.copy_(new.view_as(g))
    optimizer.step()
