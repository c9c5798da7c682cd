def train_agreeing(rank, world_size, make_model, batches):
    device = join()
    model = DDP(make_model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches:
        own = slice(rank, None, world_size)
        optimizer.zero_grad()
        predicted = model(images[own].to(device))
        cross_entropy(predicted, labels[own].to(device)).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.module.state_dict()
