# run by: ranks
# says: device_ids and output_device arguments only work with
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
DDP(nn.Linear(4, 2), device_ids=[dist.get_rank()])
