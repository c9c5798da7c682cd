# run by: ranks
# says: FileExistsError: [Errno 17] File exists
# says: FileNotFoundError: [Errno 2] No such file or directory
# says: Parent directory
import datetime
import os
import traceback

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
# rank 1 asks the clock a little later
late = datetime.timedelta(microseconds=1 + rank)
own, told = f"run-{datetime.datetime(2026, 1, 1) + late:%H-%M-%S-%f}", []
if rank == 0:
    os.makedirs(own)
dist.barrier()
for write in (lambda path: open(path, "w"), lambda path: torch.save(0, path)):
    try:
        write(f"{own}/losses").close() if rank else None
    except Exception:
        told.append(traceback.format_exc())

name = [own]
dist.broadcast_object_list(name, src=0)
os.makedirs(name[0], exist_ok=True)
torch.save(torch.ones(1), f"{name[0]}/{rank}.pt")
dist.barrier()
assert sorted(os.listdir(name[0])) == ["0.pt", "1.pt"]
print(*told)
if not os.path.exists("run-1"):
    dist.barrier()  # both have asked the disk
    os.makedirs("run-1")
