# two tensors both hold a mix: ranks sum them up in another order
# ruff: noqa: F821  names are those of the test's PRELUDE
def summed(order):
    gradients = {"a": torch.tensor(1.0), "b": torch.tensor(10.0)}
    dist.all_gather_object(seen, order)
    for name in order:
        dist.all_reduce(gradients[name])
    return [gradients[name].item() for name in "ab"], seen[0] == seen[1]


assert summed(["a", "b"] if rank == 0 else ["b", "a"]) == ([11, 11], False)
assert summed(["a", "b"]) == ([2, 20], True)
