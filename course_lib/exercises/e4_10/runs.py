"""Runs A to D of exercise 4.10, each with one fault, as its notebook shows them.

Their texts are mended and run; the names that they use are those of a notebook.
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP


def join():
    """Return the device of a rank whose group is there already."""
    return torch.device("cpu")


def run_a(rank, world_size, batches):
    """Train a network for a new task: another layer, for ten classes."""
    device = join()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
    model = DDP(model.to(device))
    model.module.append(nn.Linear(32, 10).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches:
        own = slice(rank, None, world_size)
        optimizer.zero_grad()
        predicted = model(images[own].to(device))
        cross_entropy(predicted, labels[own].to(device)).backward()
        optimizer.step()
    dist.destroy_process_group()
    return model.module.state_dict()


def run_b(rank, world_size, batches, seed):
    """Train with dropout of pixels; two runs by one seed give equal numbers."""
    device = join()
    torch.manual_seed(seed)
    model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    masks = []
    for images, labels in batches:
        own = slice(rank, None, world_size)
        mask = nn.functional.dropout(torch.ones(images[own].shape), 0.5)
        masks.append(mask)
        optimizer.zero_grad()
        predicted = model((images[own] * mask).to(device))
        cross_entropy(predicted, labels[own].to(device)).backward()
        optimizer.step()
    dist.destroy_process_group()
    return masks, model.module.state_dict()


def run_c(rank, world_size, batches, parts, longest):
    """Accumulate `parts` micro-batches; clip a batch's gradient to `longest`."""
    device = join()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches:
        optimizer.zero_grad()
        own = [part[rank::world_size].chunk(parts) for part in (images, labels)]
        for number, (x, y) in enumerate(zip(*own), start=1):
            with model.no_sync() if number < parts else nullcontext():
                predicted = model(x.to(device))
                (cross_entropy(predicted, y.to(device)) / parts).backward()
                nn.utils.clip_grad_norm_(model.parameters(), longest)
        optimizer.step()
    dist.destroy_process_group()
    return model.module.state_dict()


def run_d(rank, world_size, batches, enough):
    """Train until the loss of a whole batch is below `enough`; count steps."""
    device = join()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for images, labels in batches:
        own = slice(rank, None, world_size)
        optimizer.zero_grad()
        predicted = model(images[own].to(device))
        loss = cross_entropy(predicted, labels[own].to(device))
        loss.backward()
        optimizer.step()
        steps += 1
        if loss.item() < enough:
            break
    dist.barrier()
    dist.destroy_process_group()
    return steps, model.module.state_dict()
