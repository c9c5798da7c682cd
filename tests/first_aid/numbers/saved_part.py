# `torch.save(model.state_dict(), …)` on rank 0 of a sharded model: others get its part
# ruff: noqa: F821  names are those of the test's PRELUDE
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.fsdp import fully_shard

mesh = dist.init_device_mesh("cpu", (world_size,))
options = StateDictOptions(full_state_dict=True)
model = fully_shard(linear(4, 2), mesh=mesh)
wanted = model.weight.full_tensor()
for whole in (False, True):
    weights = model.state_dict()
    if whole:
        weights = get_model_state_dict(model, options=options)
    if rank == 0:
        torch.save(weights, "model.pt")
    dist.barrier()
    saved = torch.load("model.pt")
    again = fully_shard(nn.Linear(4, 2), mesh=mesh)
    if whole:
        set_model_state_dict(again, saved, options=options)
    else:
        again.load_state_dict(saved)
    part = again.weight.to_local()
    dist.all_gather_object(seen, part.tolist())
    assert (seen[0] == seen[1]) is not whole
    assert again.weight.full_tensor().equal(wanted) is whole
