# run by: ranks
# says: Cannot concatenate overlapping meshes
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
for part in (model, model[0]):
    fully_shard(part, mesh=mesh)
