def train_agreeing(rank, world_size, make_model, batches):
    device = join()
    model = make_model().to(device)
    for parameter in model.parameters():
        all_of_them = [torch.empty_like(parameter.data) for _ in range(world_size)]
        dist.all_gather(all_of_them, parameter.data)
        parameter.data.copy_(all_of_them[0])
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
