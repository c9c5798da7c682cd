# run by: ranks
# says: fully_shard does not support containers that do not implement forward
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2,))
layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
fully_shard([*nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])], mesh=mesh)
fully_shard(layers, mesh=mesh)
