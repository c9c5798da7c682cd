# a contrastive loss trains poorly: what `all_gather` brings has no gradient
# ruff: noqa: F821  names are those of the test's PRELUDE
def gradient(put_back):
    mine = torch.full((1,), 1.0 + rank, requires_grad=True)
    gathered = [torch.empty(1) for _ in range(world_size)]
    dist.all_gather(gathered, mine.detach())
    assert not gathered[rank].requires_grad
    if put_back:
        gathered[rank] = mine
    (torch.cat(gathered).square().sum() + 0 * mine.sum()).backward()
    return mine.grad.item()


assert gradient(put_back=False) == 0
assert gradient(put_back=True) == 2 * (1 + rank)
