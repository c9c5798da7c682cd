# hint: [printed]
# same as: nobody_prints.py
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print("mean loss", mean.item())
    return mean.item()
