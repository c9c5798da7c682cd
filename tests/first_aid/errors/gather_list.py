# run by: ranks
# says: must NOT be specified on non-destination ranks
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
parts = [torch.empty(1) for _ in range(2)]
own = torch.full((1,), 1.0 + rank)
dist.gather(own, parts if rank == 0 else None, dst=0)
assert rank or torch.cat(parts).tolist() == [1, 2]
dist.barrier()
dist.gather(own, gather_list=parts, dst=0)
