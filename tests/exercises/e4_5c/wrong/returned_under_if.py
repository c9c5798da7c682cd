# hint: they returned 1.5151, None and None
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
        return mean.item()
