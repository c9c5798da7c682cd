# hint: [only rank 0]
# same as: planted_bug.py
def mean_loss(rank, world_size, loss):
    total = loss.detach().clone()
    if rank == 0:
        dist.all_reduce(total)
        print(f"mean loss {total.item() / world_size:.3f}")
    return total.item() / world_size
