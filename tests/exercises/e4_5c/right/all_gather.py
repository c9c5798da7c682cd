def mean_loss(rank, world_size, loss):
    parts = [torch.empty_like(loss) for _ in range(world_size)]
    dist.all_gather(parts, loss.detach())
    average = torch.stack(parts).mean()
    if rank == 0:
        print(f"mean loss {average:.3f}")
    return average
