# run by: ranks
# says: got mixed torch.Tensor and DTensor
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

dist.init_process_group("gloo")
torch.manual_seed(1)
saved = {name: value + 1 for name, value in nn.Linear(4, 2).state_dict().items()}
wanted = {name: value.clone() for name, value in saved.items()}
model = fully_shard(nn.Linear(4, 2), mesh=dist.init_device_mesh("cpu", (2,)))
options = StateDictOptions(full_state_dict=True)
given = dict(saved)
set_model_state_dict(model, given, options=options)
assert all(isinstance(value, DTensor) for value in given.values())
for name, value in model.state_dict().items():
    assert value.full_tensor().equal(wanted[name])
model.load_state_dict(saved)
