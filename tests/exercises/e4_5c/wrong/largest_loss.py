# mistake: ReduceOp.MAX keeps the largest loss. A mean needs their sum, which is what
#   all_reduce gives by itself.
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.MAX)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
