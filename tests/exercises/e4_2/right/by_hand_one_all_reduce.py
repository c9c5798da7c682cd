def train(rank, world_size, model, data, epochs):
    """Without DDP: one broadcast, then one flat all-reduce per step."""
    device = join()
    model.to(device)
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    images, labels = (part.to(device) for part in data.tensors)
    for epoch in range(epochs):
        generator = torch.Generator()
        generator.manual_seed(epoch)
        order = torch.randperm(len(data), generator=generator)
        for batch in order.split(64):
            own = batch[rank::world_size].to(device)
            model.zero_grad()
            cross_entropy(model(images[own]), labels[own]).backward()
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            dist.all_reduce(flat)
            flat /= world_size
            start = 0
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * flat[start : start + p.numel()].view_as(p)
                    start += p.numel()
    dist.destroy_process_group()
    return model.state_dict()
