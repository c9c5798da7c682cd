# run by: torchrun
# says: exitcode: -6
# says: (SIGABRT)
# says: op.preamble.length <= op.nbytes
# says: Received data size doesn't match expected size
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
boxes = torch.ones(3 + dist.get_rank())
dist.all_gather([torch.zeros_like(boxes) for _ in range(2)], boxes)
