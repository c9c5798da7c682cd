def train_agreeing(rank, world_size, make_model, batches):
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpus else "gloo")
    model = make_model().to(device)
    for parameter in model.parameters():
        if rank == 0:
            for other in range(1, world_size):
                dist.send(parameter.data, dst=other)
        else:
            dist.recv(parameter.data, src=0)
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
