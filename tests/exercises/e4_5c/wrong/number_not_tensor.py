# hint: A collective needs a tensor
def mean_loss(rank, world_size, loss):
    mean = loss.item()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"mean loss {mean / world_size:.3f}")
    return mean / world_size
