"""Exercise 1.2, in a rank: the cut of a model, and the memory of a training with it."""

import contextlib
import copy
import operator
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.device_runs import on_devices, watch
from course_lib.exercises.values import plain


def mlp(widths, seed: int = 0) -> nn.Sequential:
    """Return Linear layers of these widths, a ReLU behind all but the last."""
    with baseline.seeded(seed):
        pairs = zip(widths, widths[1:])
        layers = [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*layers[:-1])


def observe(rank, world_size, answer, given):
    """Return the cut that `answer(model, x, budget)` gives, and both steps' peaks."""
    model, x, devs = given["model"], given["x"], on_devices(2)
    returned = plain(answer(copy.deepcopy(model), x.clone(), given["budget"]))
    seen = {"returned": returned, "cut": None, "names": tuple(map(str, devs))}
    with contextlib.suppress(TypeError, ValueError):  # it is no whole number
        seen["cut"] = operator.index(returned)
    if seen["cut"] in range(1, len(model)):
        parts = model[: seen["cut"]], model[seen["cut"] :]
        seen["peaks"] = _peaks(parts, x, devs)
    return seen


def _peaks(parts, x, devs):
    """The most bytes that each device holds in two steps with Adam, by its name."""
    run = watch(partial(_two_steps, parts, x, devs), devs)
    return {name: run.peak[name] - run.before[name] for name in map(str, devs)}


def _two_steps(parts, x, devs):
    parts = [part.to(device) for part, device in zip(parts, devs)]
    optimizer = torch.optim.Adam([p for part in parts for p in part.parameters()])
    labels = torch.arange(len(x)) % 10
    for _ in range(2):
        optimizer.zero_grad()
        output = parts[1](parts[0](x.to(devs[0])).to(devs[1]))
        cross_entropy(output, labels.to(devs[1])).backward()
        del output
        optimizer.step()
