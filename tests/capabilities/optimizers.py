"""Optimizers, and what they need beside the model."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.accelerators.virtual import LAUNCH, machine
from tests.capabilities.rows import A100, alike, modelled, works


def steps(device, kind, **options):
    """Parameters after three steps of an optimizer."""
    weight = nn.Parameter(torch.arange(4.0, device=device).view(2, 2))
    optimizer = kind([weight], lr=0.1, **options)
    for number in range(3):
        weight.grad = torch.full((2, 2), number + 1.0, device=device)
        optimizer.step()
    return weight.detach()


def lbfgs(device):
    """A parameter after a step of LBFGS."""
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.LBFGS([weight])

    def closure():
        optimizer.zero_grad()
        loss = (weight - 3).pow(4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight


@works(
    "all of `torch.optim` but SparseAdam; `foreach`, `fused`, `capturable`",
    "As on CUDA, optimizers work on all parameters at once unless `foreach=False`.",
)
def optimizers(devs):
    optim = torch.optim
    for kind in (optim.Adam, optim.AdamW, optim.SGD, optim.Adagrad):
        for options in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}):
            alike(lambda d, k=kind, o=options: steps(d, k, **o), devs)
    others = (getattr(optim, name) for name in dir(optim) if name[0].isupper())
    for kind in others:
        if kind not in (optim.Optimizer, optim.SparseAdam, optim.LBFGS):
            alike(lambda d, k=kind: steps(d, k), devs)
    alike(lbfgs, devs)
    plain = steps("cpu", optim.Adam)
    for options in ({"foreach": True}, {"foreach": False}):
        assert_close(
            steps(devs[1], optim.Adam, capturable=True, **options).cpu(), plain
        )
    weight = nn.Parameter(torch.ones(2, device=devs[1]))
    weight.grad = torch.ones_like(weight)
    optim.Adam([weight], lr=torch.tensor(0.1), fused=True).step()
    assert_close(weight.detach().cpu(), torch.full((2,), 0.9))


def wide():
    """The model of lesson 01: four layers hold nearly all parameters."""
    layers = [nn.Linear(64, 2048), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Linear(2048, 2048), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(2048, 10))


def adam(device, **options):
    """Bytes per parameter at the peak of a second step, and its modelled seconds."""
    model = wide().to(device)
    count = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **options)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    start = machine.clock.wait()
    torch.vgpu.reset_peak_memory_stats(device)
    optimizer.step()
    peak = torch.vgpu.max_memory_allocated(device) / count
    return peak, machine.clock.wait() - start, count


@modelled(
    "the memory and the time of Adam's step",
    "Parameters, gradients and state are 16 bytes per parameter, and that is all of"
    " `fused=True`. `foreach` needs 4 more for a moment, `foreach=False` 8 for the"
    " largest tensor: 20 and 18 for the model of lesson 01. A fused step reads and"
    " writes each number once.",
)
def adam_step(devs):
    peaks = {}
    for options in ({"foreach": True}, {"foreach": False}, {"fused": True}):
        peak, seconds, count = adam(devs[1], **options)
        peaks[next(iter(options))] = round(peak, 1)
        if "fused" in options:
            assert (round(peak, 2), peaks["foreach"]) == (16, 18)
            # reads parameter, gradient and two means, writes all but the gradient
            once = 7 * 4 * count / A100.bandwidth
            # the host starts the count of steps and then the step itself, both on lists
            assert seconds == pytest.approx(once + 8 * LAUNCH, rel=0.01)
    assert round(adam(devs[2], foreach=True)[0], 1) == 20


@works(
    '`torch.amp.GradScaler("vgpu")`, `nn.utils.clip_grad_norm_`',
    "Also with `foreach` and fused optimizers; a step with infinite gradients is left"
    " out.",
)
def scaled(devs):
    def step(device, options):
        model = nn.Linear(4, 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, **options)
        scaler = torch.amp.GradScaler(torch.device(device).type)
        scaler.scale(model(torch.randn(3, 4, device=device)).sum()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        scaler.step(optimizer)
        scaler.update()
        return model.weight

    for options in ({}, {"fused": True}):
        alike(lambda device, given=options: step(device, given), devs)
    weight = nn.Parameter(torch.ones(2, device=devs[1]))
    optimizer = torch.optim.SGD([weight], 0.1)
    scaler = torch.amp.GradScaler("vgpu")
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1] and scaler.get_scale() == 2**15
