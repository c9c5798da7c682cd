# hint: The group is there already
def mean_loss(rank, world_size, loss):
    dist.init_process_group("gloo")
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    if rank == 0:
        print(f"mean loss {mean.item():.3f}")
    return mean.item()
