# mistake: `int` cuts off the fraction of each loss, and so does a tensor of whole
#   numbers. Keep the loss as it is: loss.detach().clone().
def mean_loss(rank, world_size, loss):
    total = torch.tensor(int(loss))
    dist.all_reduce(total)
    mean = total.item() / world_size
    if rank == 0:
        print(f"mean loss {mean:.3f}")
    return mean
