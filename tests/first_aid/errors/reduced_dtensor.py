# run by: ranks
# says: does not have a sharding strategy registered
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = fully_shard(nn.Linear(4, 2), mesh=dist.init_device_mesh("cpu", (2,)))
model(torch.full((1, 4), 2.0 * dist.get_rank())).sum().backward()
# the mean of 0 and 2: it is the same as if all samples were here
assert model.weight.grad.full_tensor().equal(torch.ones(2, 4))
dist.all_reduce(model.weight.grad)
