# run by: ranks
# says: Invariant encountered: value was None when it should not be
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2,))
for inner_first in (True, False):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    for part in (model[0], model) if inner_first else (model, model[0]):
        fully_shard(part, mesh=mesh)
