# run by: ranks
# says: Connection closed by peer | Connection reset by peer
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(1))
