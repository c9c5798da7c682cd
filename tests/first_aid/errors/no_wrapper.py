# run by: ranks
# says: 'FSDPLinear' object has no attribute 'module'
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = fully_shard(nn.Linear(4, 2), mesh=dist.init_device_mesh("cpu", (2,)))
assert set(model.state_dict()) == {"weight", "bias"}
print(model.module)
