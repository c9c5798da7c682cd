# run by: ranks
# says: appears not to match sizes of the same param in process 0
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
DDP(nn.Linear(8, 2 + dist.get_rank()))
