# blocks have `fully_shard`, the model has not: what is in no block drifts apart
# ruff: noqa: F821  names are those of the test's PRELUDE
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

mesh = dist.init_device_mesh("cpu", (world_size,))
x = torch.arange(16.0).reshape(4, 4) / 16
single = nn.Sequential(linear(4, 4), linear(4, 2))
single(x).square().mean().backward()
for whole in (False, True):
    model = nn.Sequential(linear(4, 4), linear(4, 2))
    fully_shard(model[0], mesh=mesh)
    if whole:
        fully_shard(model, mesh=mesh)
    model(x[rank::world_size]).square().mean().backward()
    plain = [n for n, p in model.named_parameters() if not isinstance(p, DTensor)]
    assert plain == ([] if whole else ["1.weight", "1.bias"])
    gradient = model[1].weight.grad
    gradient = gradient.full_tensor() if whole else gradient
    dist.all_gather_object(seen, gradient)
    assert seen[0].equal(seen[1]) is whole
    assert gradient.allclose(single[1].weight.grad) is whole
