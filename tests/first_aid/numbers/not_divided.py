# gradients are as many times too large as there are micro-batches
# ruff: noqa: F821  names are those of the test's PRELUDE
x, y = torch.arange(8.0).reshape(8, 1), torch.ones(8, 1)
whole = linear(1, 1)
mse_loss(whole(x), y).backward()
gradients = {}
for divide in (1, 4):
    model = linear(1, 1)
    for part, wanted in zip(x.chunk(4), y.chunk(4)):
        (mse_loss(model(part), wanted) / divide).backward()
    gradients[divide] = model.weight.grad
    if divide == 1:
        assert_close(model.weight.grad / whole.weight.grad, torch.tensor([[4.0]]))
assert_close(gradients[4], whole.weight.grad)
