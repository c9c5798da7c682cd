# run by: ranks
# says: Timed out waiting 1800000ms for recv operation to complete
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=2))
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 1:
    try:
        dist.broadcast(torch.ones(1), 0)
    finally:
        store.set("rank 1", "has ended")
else:
    store.wait(["rank 1"], timedelta(minutes=1))  # and sends nothing
