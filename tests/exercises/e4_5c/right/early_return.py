def mean_loss(rank, world_size, loss):
    with torch.no_grad():
        copy = loss + 0
        work = dist.all_reduce(copy, async_op=True)
        work.wait()
    mean = (copy / dist.get_world_size()).item()
    print("rank", rank, "is there")
    if rank > 0:
        return mean
    print(f"mean loss {mean:.3f}")
    return mean
