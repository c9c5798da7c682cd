# run by: ranks
# says: unsupported format string passed to DTensor.__format__
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = fully_shard(nn.Linear(4, 2), mesh=dist.init_device_mesh("cpu", (2,)))
norm = model.weight.norm()
print(f"{norm.full_tensor():.2f}")
print(f"{norm:.2f}")
