# run by: ranks
# says: PytorchStreamReader failed reading zip archive: failed finding central directory
# says: EOFError
# says: FileNotFoundError: [Errno 2] No such file or directory
import io
import os
import traceback

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
whole = io.BytesIO()
torch.save({"weight": torch.ones(64)}, whole)
content, told = whole.getvalue(), []


def meanwhile():
    """Rank 1 reads while rank 0 is at this place; then rank 0 goes on."""
    dist.barrier()
    if rank == 1:
        try:
            torch.load("model.pt")
        except Exception:
            told.append(traceback.format_exc())
    dist.barrier()


meanwhile()
if rank == 0:
    with open("model.pt", "wb", buffering=0) as file:
        meanwhile()
        file.write(content[:-100])
        meanwhile()
        file.write(content[-100:])
    torch.save({"weight": torch.zeros(64)}, "model.part")
    os.replace("model.part", "model.pt")
else:
    meanwhile(), meanwhile()
dist.barrier()
assert not torch.load("model.pt")["weight"].any()
print(*told)
