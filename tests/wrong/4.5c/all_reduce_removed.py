# hint: nothing travelled
def mean_loss(rank, world_size, loss):
    if rank == 0:
        print(f"mean loss {loss.item():.3f}")
    return loss.item()
