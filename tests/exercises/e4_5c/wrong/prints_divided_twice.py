# mistake: Here the printed number is divided by world_size once more: what the ranks
#   return is the mean already.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item() / world_size:.3f}")
    return mean.item()
