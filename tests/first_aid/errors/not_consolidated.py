# run by: ranks
# says: Optimizer state has not been consolidated on this rank
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
model = nn.Linear(2, 1)
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
optimizer.state_dict()
