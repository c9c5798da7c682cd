# run by: ranks
# says: 'Parameter' object has no attribute '_local_tensor'
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
)
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = fully_shard(nn.Linear(4, 2), mesh=dist.init_device_mesh("cpu", (2,)))
weights = nn.Linear(4, 2).state_dict()
options = StateDictOptions(full_state_dict=True)
set_model_state_dict(model, dict(weights), options=options)
assert model.weight.full_tensor().equal(weights["weight"])
model.load_state_dict(weights, assign=True)
