def train_agreeing(rank, world_size, make_model, batches):
    device = join()
    box = [make_model() if rank == 0 else None]
    dist.broadcast_object_list(box, src=0, device=device)
    model = box[0].to(device)
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
