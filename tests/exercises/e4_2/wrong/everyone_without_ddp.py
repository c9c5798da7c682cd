# hint: does the work of one process
# same as: everyone_computes_everything.py
def train(rank, world_size, model, data, epochs):
    device = join()
    model.to(device)
    sampler = DistributedSampler(data, num_replicas=1, rank=0)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            predicted = model(images.to(device))
            cross_entropy(predicted, labels.to(device)).backward()
            optimizer.step()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    dist.destroy_process_group()
    return model.state_dict()
