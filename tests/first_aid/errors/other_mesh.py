# run by: ranks
# says: on inputs with different meshes
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
flat = dist.init_device_mesh("cpu", (2,))
hybrid = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("copies", "shards"))
saved, model = (fully_shard(nn.Linear(4, 2), mesh=mesh) for mesh in (hybrid, flat))
dcp.save(saved.state_dict(), checkpoint_id="checkpoint")
weights = model.state_dict()
dcp.load(weights, checkpoint_id="checkpoint")
model.load_state_dict(weights)
assert model.weight.full_tensor().equal(saved.weight.full_tensor())
model.load_state_dict(saved.state_dict())
