# run by: ranks
# says: Expected to have finished reduction in the prior iteration
# says: did not receive grad for rank
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x):
        return self.used(x), self.spare(x)


dist.init_process_group("gloo")
model = DDP(Two())
for _ in range(2):
    model(torch.ones(4, 8))[0].sum().backward()
