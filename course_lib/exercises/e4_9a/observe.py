"""Exercises 4.9a, 4.9b and 4.9c, in a rank: a training with a DDP that is an answer."""

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises.compare import (
    gradients_of,
    group,
    is_model,
    noted,
    numbers_of,
)
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.values import plain
from course_lib.exercises.waits import noted_waits, unasked


def observe(rank, world_size, answer, given):
    """Return the state after `answer(module, *more)`, and what each step did.

    `given` has `make`, which builds the module from a seed, and the `seed` of rank 0;
    `more`; `steps`, each with the inputs and labels of all ranks; `optimizer`, made
    `early` if before the module is wrapped.
    """
    with group(rank, world_size) as device, noted(DDP, "__init__") as built:
        module = given["make"](given["seed"] + rank).to(device)
        own = list(module.parameters())
        optimizer = given["optimizer"](own) if given["early"] else None
        model = answer(module, *given["more"])
        if not is_model(model, ("forward", "finish")):
            return {"returned": plain(model)}
        there = {id(p) for p in model.parameters()} & set(map(id, module.parameters()))
        seen = {
            "start": numbers_of(module),
            "kept": len(there & set(map(id, own))),
        }
        if seen["kept"] == len(own):  # else a training would tell nothing
            optimizer = optimizer or given["optimizer"](model.parameters())
            trained = enumerate(
                _train(model, module, optimizer, _shares(rank, given, device))
            )
            seen["steps"] = dict(trained)
        return seen | {"built": len(built)}


def _shares(rank, given, device):
    for shares in given["steps"]:
        yield [p.to(device) if torch.is_tensor(p) else p for p in shares[rank]]


def _train(model, module, optimizer, shares):
    """Yield what each step did; at an output that is none, what that is instead."""
    for *inputs, labels in shares:
        optimizer.zero_grad()
        with Traffic(module) as traffic, noted_waits() as asked:
            output = model(*inputs)
            if not torch.is_tensor(output):
                yield {"output": plain(output)}
                return
            cross_entropy(output, labels).backward()
            model.finish()
        step = _step_of(module, traffic, asked)
        optimizer.step()
        yield step | {"weights": plain(dict(module.named_parameters()))}


def _step_of(module, traffic, asked):
    """Gradients, name and bytes of each call, and calls that nobody waited for."""
    calls = [call for after in traffic.sent for call in after]
    return {
        "gradients": plain(gradients_of(module)),
        "sent": [(name, size) for name, size in calls if size],
        "open": unasked(len(calls), asked),
    }
