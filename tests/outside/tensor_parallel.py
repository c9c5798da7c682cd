"""Tensor parallel: each rank holds half of each matrix; the numbers are the same."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import course_lib as cl


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def fit(model, xs):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for x in xs:
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(rank, world_size, xs):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (world_size,))
    plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
    model = parallelize_module(Feed(), mesh, plan)
    shapes = [tuple(p.to_local().shape) for p in model.parameters()]
    return fit(model, xs), shapes


xs = torch.randn(5, 16, 8, generator=torch.Generator().manual_seed(1))
wanted = torch.tensor(fit(Feed(), xs))
for losses, shapes in cl.launch(train, xs, world_size=2):
    torch.testing.assert_close(torch.tensor(losses), wanted)
    assert shapes == [(16, 8), (16,), (8, 16), (8,)]
