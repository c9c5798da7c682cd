# run by: ranks
# says: Timed out waiting 1800000ms for recv operation to complete
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(hours=2))
short = dist.new_group(timeout=timedelta(seconds=2))
store = dist.distributed_c10d._get_default_store()
prepared = torch.full((1,), 1.0 - dist.get_rank())
if dist.get_rank() == 1:
    # both wait for rank 0, which is at work; the short one gives up
    patient = dist.broadcast(prepared, 0, async_op=True)
    try:
        dist.broadcast(torch.zeros(1), 0, group=short)
    except RuntimeError:
        told = traceback.format_exc()
    store.set("the short one", "has given up")
    patient.wait()
    assert prepared.item() == 1
    print(told)
else:
    store.wait(["the short one"], timedelta(minutes=1))
    dist.broadcast(prepared, 0)
