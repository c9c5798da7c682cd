# run by: ranks
# says: Distributed package doesn't have NCCL built in | nccl2 requires
import torch.distributed as dist

dist.init_process_group("nccl")
