# the last numbers of a tensor are old after a broadcast
# ruff: noqa: F821  names are those of the test's PRELUDE
tensor = torch.full((3 + rank,), float(rank))
dist.broadcast(tensor, 0)
assert tensor.tolist() == ([0, 0, 0, 1] if rank else [0, 0, 0])
dist.all_gather_object(seen, tuple(tensor.shape))
assert seen == [(3,), (4,)]
tensor = torch.empty(seen[0])
dist.broadcast(tensor, 0)
