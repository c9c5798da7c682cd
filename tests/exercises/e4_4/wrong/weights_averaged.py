# mistake: Here each rank steps with gradients of its own, and then the weights are
#   averaged. Under Adam, or any optimizer but plain SGD, this is another step: average
#   the gradients, before it.
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches:
            (cross_entropy(model(images), labels) / len(microbatches)).backward()
    optimizer.step()
    flat = torch.cat([p.data.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(
        model.parameters(), flat.split([p.numel() for p in model.parameters()])
    ):
        p.data.copy_(part.view_as(p))
