# hint: [loss changed]
# same as: loss_overwritten.py
def mean_loss(rank, world_size, loss):
    mean = loss.detach()
    dist.all_reduce(mean)
    mean = mean / world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
