# hint: [only rank 0]
def mean_loss(rank, world_size, loss):
    if rank == 0:
        dist.all_reduce(loss)
        print(f"mean loss {loss.item() / world_size:.3f}")
    return loss.item() / world_size
