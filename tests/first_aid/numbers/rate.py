# with more ranks an epoch learns less
# ruff: noqa: F821  names are those of the test's PRELUDE
x = torch.linspace(0.5, 1, 16).reshape(16, 1)
batch_size = 2


def trained(model, parts, rate):
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for part in parts:
        optimizer.zero_grad()
        mse_loss(model(part), 3 * part).backward()
        optimizer.step()
    return mse_loss(model(x), 3 * x).item()


own = x.split(batch_size)[rank::world_size]
one = trained(linear(1, 1), x.split(batch_size), 0.05)
same = trained(DDP(linear(1, 1)), own, 0.05)
scaled = trained(DDP(linear(1, 1)), own, 0.05 * world_size)
assert batch_size * world_size == 4
assert one < same and abs(scaled - one) < 0.2 * (same - one)
