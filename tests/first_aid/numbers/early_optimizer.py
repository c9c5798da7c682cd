# the optimizer was made before `fully_shard(model)`: the weights stay as they are
# ruff: noqa: F821  names are those of the test's PRELUDE
from torch.distributed.fsdp import fully_shard

mesh = dist.init_device_mesh("cpu", (world_size,))
for early in (True, False):
    model = linear(4, 2)
    if early:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
    fully_shard(model, mesh=mesh)
    if not early:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.weight.full_tensor().clone()
    model(torch.ones(3, 4)).sum().backward()
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert mine.isdisjoint(map(id, model.parameters())) is early
    optimizer.step()
    assert model.weight.full_tensor().equal(before) is early
