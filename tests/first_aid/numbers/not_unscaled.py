# clipping with a `GradScaler`: all steps are tiny
# ruff: noqa: F821  names are those of the test's PRELUDE
def step(unscale):
    model = linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    before = model.weight.detach().clone()
    scaler.scale(model(torch.full((1, 4), 0.25)).sum()).backward()
    if unscale:
        scaler.unscale_(optimizer)
    norm = clip_grad_norm_(model.parameters(), 2.0)
    scaler.step(optimizer)
    return norm.item(), (model.weight.detach() - before).norm().item()


norm, moved = step(unscale=False)
assert norm == 2.0**16 / 2 and moved < 1e-4
assert step(unscale=True) == (0.5, 0.5)
