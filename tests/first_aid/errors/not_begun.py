# run by: ranks
# says: Default process group has not been initialized
import torch.distributed as dist

dist.get_rank()
