"""Hugging Face Accelerate: the loop of its documentation, equal to a plain one."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import course_lib as cl


def make(xs, *, size):
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, optimizer, DataLoader(TensorDataset(xs), batch_size=size)


def train(rank, world_size, xs):
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(*make(xs, size=4))
    losses = []
    for (x,) in loader:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        losses.append(accelerator.gather(loss.detach()[None]).mean().item())
    weight = accelerator.unwrap_model(model).weight.detach().clone()
    accelerator.end_training()
    return accelerator.num_processes, losses, weight


xs = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
model, optimizer, loader = make(xs, size=8)
wanted = []
for (x,) in loader:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    wanted.append(loss.item())
for count, losses, weight in cl.launch(train, xs, world_size=2):
    assert count == 2
    torch.testing.assert_close(losses, wanted)
    torch.testing.assert_close(weight, model.weight.detach())
