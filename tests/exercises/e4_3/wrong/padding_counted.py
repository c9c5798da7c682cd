# mistake: DistributedSampler deals some samples twice, so that all ranks get equally
#   many. An evaluation needs no equal shares: Subset(data, range(rank, len(data), n))
#   for n ranks deals each sample once.
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    if rank == 0:
        torch.save(model.module.state_dict(), path)
    dist.barrier()
    model.module.load_state_dict(torch.load(path, map_location=device))
    model.eval()
    sampler = DistributedSampler(data, shuffle=False)
    counts = torch.zeros(2, device=device)
    with torch.no_grad():
        for images, labels in DataLoader(data, batch_size=20, sampler=sampler):
            predicted = model.module(images.to(device)).argmax(1)
            counts[0] += (predicted == labels.to(device)).sum()
            counts[1] += len(labels)
    model.train()
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()
