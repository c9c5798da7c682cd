# run by: ranks
# says: size mismatch for weight: copying a param with shape torch.Size([1, 4])
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = fully_shard(nn.Linear(4, 2), mesh=dist.init_device_mesh("cpu", (2,)))
model.load_state_dict(model.state_dict())
model.load_state_dict({k: v.to_local() for k, v in model.state_dict().items()})
