# a tensor is the same after `all_reduce`
# ruff: noqa: F821  names are those of the test's PRELUDE
x = torch.ones(4)
mask = torch.tensor([True, True, False, False])
part = x[mask]
dist.all_reduce(part)
shared = part.data_ptr() == x.data_ptr()
assert not shared
assert x.tolist() == [1, 1, 1, 1]
x[mask] = part
assert x.tolist() == [2, 2, 1, 1]
