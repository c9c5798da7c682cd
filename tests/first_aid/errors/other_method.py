# run by: ranks
# says: got mixed torch.Tensor and DTensor
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def encode(self, x):
        return self.body(x)

    def forward(self, x):
        return self.head(self.encode(x))


dist.init_process_group("gloo")
mesh, x = dist.init_device_mesh("cpu", (2,)), torch.ones(3, 4)
model = fully_shard(Net(), mesh=mesh)
register_fsdp_forward_method(model, "encode")
assert model.encode(x).shape == (3, 4)
fully_shard(Net(), mesh=mesh).encode(x)
