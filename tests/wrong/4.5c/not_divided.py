# hint: That is the sum
def mean_loss(rank, world_size, loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"mean loss {total.item():.3f}")
    return total.item()
