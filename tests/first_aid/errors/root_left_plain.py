# run by: ranks
# says: got mixed torch.Tensor and DTensor
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import clip_grad_norm_

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2,))
for whole in (True, False):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    fully_shard(model[0], mesh=mesh)
    if whole:
        fully_shard(model, mesh=mesh)
    model(torch.ones(3, 4)).sum().backward()
    clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.AdamW(model.parameters(), foreach=True).step()
