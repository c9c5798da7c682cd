def mean_loss(rank, world_size, loss):
    mean = loss.data.clone() / world_size
    dist.reduce(mean, 0)
    dist.broadcast(mean, 0)
    if not rank:
        print("mean loss", f"{mean.item():.3f}")
    return float(mean)
