# hint: All ranks start from the mean
# same as: start_averaged
def train_agreeing(rank, world_size, make_model, batches):
    device = join()
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches:
        own = slice(rank, None, world_size)
        optimizer.zero_grad()
        predicted = model(images[own].to(device))
        cross_entropy(predicted, labels[own].to(device)).backward()
        optimizer.step()
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= world_size
    dist.destroy_process_group()
    return model.state_dict()
