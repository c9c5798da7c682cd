# run by: torchrun
# with: TORCH_DISTRIBUTED_DEBUG=DETAIL
# says: exitcode: -11
# says: (SIGSEGV)
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
DDP(nn.Linear(2, 1))
print("DDP(model) came back")
