# run by: ranks
# says: SyncBatchNorm layers only work with GPU modules
# says: SyncBatchNorm expected input tensor to be on
import traceback

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
x = torch.rand(8, 4)
DDP(net)(x).sum().backward()  # what helps
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
for use in (DDP, lambda net: net(x)):
    try:
        use(net)
    except Exception:
        traceback.print_exc()
