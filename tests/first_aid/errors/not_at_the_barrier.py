# run by: ranks
# says: failed to pass monitoredBarrier
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=2))
    finally:
        store.set("rank 0", "has ended")
else:
    store.wait(["rank 0"], timedelta(minutes=1))  # and does not come
