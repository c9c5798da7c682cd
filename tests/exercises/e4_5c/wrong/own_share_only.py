# mistake: That is the rank's own loss, divided by world_size but not added up. The
#   losses of all ranks must come together first.
def mean_loss(rank, world_size, loss):
    if rank == 0:
        print(f"mean loss {loss.item() / world_size:.3f}")
    return loss.item() / world_size
