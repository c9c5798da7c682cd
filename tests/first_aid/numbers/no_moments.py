# after a restart the loss goes up, and comes down again
# ruff: noqa: F821  names are those of the test's PRELUDE
x, y = torch.randn(32, 4, generator=torch.Generator().manual_seed(0)), torch.ones(32, 1)


def trained(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
    return model.weight.detach()


def fresh():
    model = linear(4, 1)
    return model, torch.optim.Adam(model.parameters(), 0.1)


model, optimizer = fresh()
trained(model, optimizer, 5)
saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
wanted = trained(model, optimizer, 5)
for with_optimizer in (False, True):
    model, optimizer = fresh()
    model.load_state_dict(saved[0])
    assert optimizer.state_dict()["state"] == {}
    if with_optimizer:
        optimizer.load_state_dict(copy.deepcopy(saved[1]))
    assert trained(model, optimizer, 5).equal(wanted) is with_optimizer
