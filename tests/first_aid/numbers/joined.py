# with `model.join()` the last steps of an epoch are too small
# ruff: noqa: F821  names are those of the test's PRELUDE
x = torch.ones(1, 1)
gradients = {}
for divide in (True, False):
    model = DDP(linear(1, 1))
    loader = [x] * (1 + rank)
    with warnings.catch_warnings(), model.join(divide_by_initial_world_size=divide):
        for batch in loader:
            model.zero_grad()
            model(batch).sum().backward()
    gradients[divide] = model.module.weight.grad
dist.all_gather_object(seen, len(loader))
assert seen == [1, 2]
if rank == 1:  # its second batch alone
    assert_close(gradients[True], x / 2)
    assert_close(gradients[False], x)
