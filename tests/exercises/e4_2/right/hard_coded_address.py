def train(rank, world_size, model, data, epochs):
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    dist.init_process_group(
        "nccl" if on_gpus else "gloo",
        init_method="tcp://localhost:29500",
        rank=rank,
        world_size=world_size,
    )
    model = DDP(model.to(device))
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
