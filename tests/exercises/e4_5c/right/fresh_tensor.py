def mean_loss(rank, world_size, loss):
    # warns on every rank that copying a tensor should be done by clone
    t = torch.tensor(loss, device=loss.device)
    dist.all_reduce(t, op=dist.ReduceOp.SUM)
    m = t.item() / world_size
    print(f"mean loss {m:.3f}") if rank == 0 else None
    return m
