"""FSDP2: shards of a model learn what the plain one does, and come back from files."""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import course_lib as cl


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(12, 40), nn.Linear(40, 12)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def make():
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block())


def steps(model, optimizer, xs):
    losses = []
    for x in xs:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def shard(world_size):
    mesh = init_device_mesh("cpu", (world_size,))
    model = make()
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, sgd(model)


def train(rank, world_size, xs, folder):
    dist.init_process_group("gloo")
    model, optimizer = shard(world_size)
    mine = [x.chunk(world_size)[rank] for x in xs]
    losses = steps(model, optimizer, mine[:2])
    names = "model", "optimizer"
    dcp.save(dict(zip(names, get_state_dict(model, optimizer))), checkpoint_id=folder)
    losses += steps(model, optimizer, mine[2:])
    again, other = shard(world_size)
    state = dict(zip(names, get_state_dict(again, other)))
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        again, other, model_state_dict=state["model"], optim_state_dict=state[names[1]]
    )
    losses_again = steps(again, other, mine[2:])
    local = model[0].up.weight.to_local().shape
    weights = [p.full_tensor().detach() for p in model.parameters()]
    return losses, losses_again, tuple(local), weights


xs = torch.randn(4, 8, 12, generator=torch.Generator().manual_seed(1))
plain = make()
wanted = steps(plain, sgd(plain), xs)
with tempfile.TemporaryDirectory() as folder:
    results = cl.launch(train, xs, folder, world_size=2)
for losses, losses_again, local, weights in results:
    assert losses[2:] == losses_again
    assert local == (20, 12)
    for sharded, whole in zip(weights, plain.parameters(), strict=True):
        torch.testing.assert_close(sharded, whole.detach())
means = torch.tensor([losses for losses, *_ in results]).mean(0)
torch.testing.assert_close(means, torch.tensor(wanted))
