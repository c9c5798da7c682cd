# hint: [loss changed]
def mean_loss(rank, world_size, loss):
    dist.all_reduce(loss)
    if rank == 0:
        print(f"mean loss {loss.item() / world_size:.3f}")
    return loss.item() / world_size
