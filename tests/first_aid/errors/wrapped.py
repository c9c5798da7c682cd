# run by: ranks
# says: 'DistributedDataParallel' object has no attribute
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(nn.Linear(2, 1))
print(model.module.weight)
print(model.weight)
