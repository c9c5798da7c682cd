# hint: [others print]
def mean_loss(rank, world_size, loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= world_size
    print(f"mean loss {mean.item():.3f}")
    return mean.item()
