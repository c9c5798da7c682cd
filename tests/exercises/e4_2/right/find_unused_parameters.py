def train(rank, world_size, model, data, epochs):
    device = join()
    model = DDP(model.to(device), find_unused_parameters=True)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64 // world_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            predicted = model(images.to(device))
            cross_entropy(predicted, labels.to(device)).backward()
            optimizer.step()
    dist.destroy_process_group()
    return model.module.state_dict()
