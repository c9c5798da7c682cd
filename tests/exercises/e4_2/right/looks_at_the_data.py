def train(rank, world_size, model, data, epochs):
    device = join()
    model = DDP(model.to(device))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64 // world_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    print(data[0][0].shape, len(data))
    print(model(next(iter(loader))[0].to(device)).shape)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            predicted = model(images.to(device))
            cross_entropy(predicted, labels.to(device)).backward()
            optimizer.step()
    dist.destroy_process_group()
    return model.module.state_dict()
