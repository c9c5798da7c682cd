# run by: ranks
# says: DDP expects same model across all ranks
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
DDP(nn.Sequential(*[nn.Linear(8, 8) for _ in range(1 + dist.get_rank())]))
