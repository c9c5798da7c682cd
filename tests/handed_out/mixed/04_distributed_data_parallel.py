# %% answer-4-1
def shard_indices(num_samples, rank, world_size):
    indices = list(range(num_samples))
    k = 0
    while len(indices) % world_size != 0:
        indices.append(k % num_samples)
        k += 1
    return [indices[i] for i in range(len(indices)) if i % world_size == rank]

# %% below answer-4-1
assert [shard_indices(10, rank, 4) for rank in range(4)] == shards

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
        for images, labels in loader:
            optimizer.zero_grad()
            predicted = model(images.to(device))
            cross_entropy(predicted, labels.to(device)).backward()
            optimizer.step()
    dist.destroy_process_group()
    return model.module.state_dict()

# %% answer-4-4
from contextlib import nullcontext


def accumulate(model, optimizer, microbatches):
    last = len(microbatches) - 1
    for i, (x, y) in enumerate(microbatches):
        with model.no_sync() if i < last else nullcontext():
            loss = cross_entropy(model(x), y) / len(microbatches)
            loss.backward()
    optimizer.step()
    optimizer.zero_grad()

# %% answer-4-5b
def train_agreeing(rank, world_size, make_model, batches):
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpus else "gloo")
    torch.manual_seed(0)
    model = make_model().to(device)
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
    dist.all_reduce(loss)
    if rank == 0:
        print(f"mean loss {loss.item() / world_size:.3f}")
    return loss.item() / world_size
