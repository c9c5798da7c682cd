def train(rank, world_size, model, data, epochs):
    device = join()
    model.to(device)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64 // world_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            predicted = model(images.to(device))
            cross_entropy(predicted, labels.to(device)).backward()
            for parameter in model.parameters():
                parts = [torch.empty_like(parameter) for _ in range(world_size)]
                dist.all_gather(parts, parameter.grad)
                parameter.grad = torch.stack(parts).mean(0)
            optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()
