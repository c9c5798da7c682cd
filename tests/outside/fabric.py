"""Lightning Fabric in ranks, equal to a plain loop."""

import torch
from lightning.fabric import Fabric

import course_lib as cl


def make():
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    return model, torch.optim.SGD(model.parameters(), 0.1)


def train(rank, world_size, xs):
    fabric = Fabric(accelerator="cpu", devices=world_size, strategy="ddp")
    fabric.launch()
    model, optimizer = fabric.setup(*make())
    for x in xs:
        optimizer.zero_grad()
        fabric.backward(model(x.chunk(world_size)[rank]).square().mean())
        optimizer.step()
    return fabric.world_size, model.module.weight.detach().clone()


xs = torch.randn(3, 8, 6, generator=torch.Generator().manual_seed(1))
model, optimizer = make()
for x in xs:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
for count, weight in cl.launch(train, xs, world_size=2):
    assert count == 2
    torch.testing.assert_close(weight, model.weight.detach())
