def mean_loss(rank, world_size, loss):
    losses = [None] * world_size
    dist.all_gather_object(losses, loss.item())
    if dist.get_rank() == 0:
        print(f"mean loss {sum(losses) / world_size:.3f}", flush=True)
    return sum(losses) / len(losses)
