# run by: ranks
# says: Connection reset by peer | Connection closed by peer
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    os._exit(1)  # what was sent to it is not read
dist.send(torch.ones(1_000_000), 0)
dist.barrier()
