# all ranks draw the same dropout, crops and noise
# ruff: noqa: F821  names are those of the test's PRELUDE
def draw(seed):
    torch.manual_seed(seed)
    dist.all_gather_object(seen, torch.rand(1).item())
    return len(set(seen))


assert draw(0) == 1
assert draw(0 + rank) == world_size
