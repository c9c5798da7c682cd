# run by: torchrun
# says: cannot pickle 'torch._C._distributed_c10d.ProcessGroup' object
import copy

import torch
import torch.distributed as dist
from torch import nn


class Layer(nn.Linear):
    def take(self, group):
        self.group = group
        return self


dist.init_process_group("gloo")
layer, path = Layer(4, 2), f"{dist.get_rank()}.pt"
twin = copy.deepcopy(layer).take(dist.new_group())
layer.take(dist.new_group())
torch.save(layer.state_dict(), path)
twin.load_state_dict(torch.load(path))
try:
    copy.deepcopy(layer)
except TypeError as error:
    assert "cannot pickle 'torch._C._distributed_c10d.ProcessGroup'" in str(error)
    torch.save(layer, path)
