# %% answer-4-1
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    padded = [i % num_samples for i in range(length)]
    return padded[rank::world_size]


# %% answer-4-2
def train(rank, world_size, model, data, epochs):
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
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


# %% answer-4-3
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    accuracy = torch.zeros(1, device=device)
    if rank == 0:
        model.module.eval()
        right = 0
        with torch.no_grad():
            for images, labels in DataLoader(data, batch_size=50):
                predicted = model.module(images.to(device)).argmax(1)
                right += (predicted == labels.to(device)).sum().item()
        accuracy[0] = right / len(data)
        model.module.train()
        torch.save(model.module.state_dict(), path)
    dist.barrier()
    model.module.load_state_dict(torch.load(path, map_location=device))
    dist.broadcast(accuracy, src=0)
    return accuracy.item()


# %% answer-4-4
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    images, labels = microbatches[-1]
    loss = cross_entropy(model(images), labels)
    (loss / len(microbatches)).backward()
    optimizer.step()


# %% answer-4-5a
def train_shuffled(rank, world_size, model, data, epochs):
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
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


# %% answer-4-5b
def train_agreeing(rank, world_size, make_model, batches):
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    model = make_model().to(device)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches:
        own = slice(rank, None, world_size)
        optimizer.zero_grad()
        predicted = model(images[own].to(device))
        cross_entropy(predicted, labels[own].to(device)).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()
    dist.destroy_process_group()
    return model.state_dict()


# %% answer-4-5c
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
