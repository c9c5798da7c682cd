# run by: ranks
# says: has been modified by an inplace operation
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
# two forwards with BatchNorm before one backward: an error before PyTorch 2.13
norm = DDP(nn.BatchNorm1d(8))
(norm(torch.rand(4, 8)).sum() + norm(torch.rand(4, 8)).sum()).backward()

model = DDP(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
real, fake = model(torch.ones(4, 8)).sum(), model(torch.zeros(4, 8)).sum()
real.backward()
optimizer.step()
fake.backward()
