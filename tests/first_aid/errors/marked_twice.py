# run by: ranks
# says: Expected to mark a variable ready only once
# says: has been marked as ready twice
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.block, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
        self.reentrant = reentrant

    def forward(self, x):
        return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))


dist.init_process_group("gloo")
x = torch.ones(4, 8, requires_grad=True)
for reentrant in (False, True):  # the first is what helps
    model = DDP(Block(reentrant), find_unused_parameters=True)
    model(x).sum().backward()
