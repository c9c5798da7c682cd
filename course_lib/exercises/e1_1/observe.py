"""Exercise 1.1, in a rank: a model on two devices, and one batch through it."""

import traceback

import torch

from course_lib.exercises.counted_work import Copies, Work
from course_lib.exercises.device_runs import held, on_devices, to_cpu, watch
from course_lib.exercises.values import plain
from course_lib.stacks import Frame, is_learners


def another(x: torch.Tensor) -> torch.Tensor:
    """Return other numbers in half of the rows: what comes in the next call."""
    return 1 - x[1::2]


def observe(rank, world_size, answer, given):
    """Return what `answer(model, devices)` puts where, and what its forward does.

    `given` has the model and its input; what forward returns goes through backward.
    """
    devs = on_devices(2)
    names, before = tuple(map(str, devs)), held(devs)
    forward = answer(given["model"], devs)
    after = held(devs)
    seen = {"held": {name: after[name] - before[name] for name in names}}
    seen["returned"] = plain(forward)
    return seen | (_forward(forward, given, devs) if callable(forward) else {})


def _forward(forward, given, devs):
    x = given["x"].to(devs[0]).requires_grad_()
    work, copies, kept = Work(given["model"]), Copies(), []

    def call():
        with work, copies:
            kept.append(forward(x))
        return kept[0]

    try:
        run = watch(call, devs)
    except TypeError as error:
        frames = [frame[:3] for frame in traceback.extract_tb(error.__traceback__)]
        if any(is_learners(Frame(*frame)) for frame in frames):
            raise
        return {}  # it cannot be called with x
    output, returned = kept[0], plain(kept[0])
    there = torch.is_tensor(returned)  # what is too large is none
    if there and output.requires_grad:
        output.square().sum().backward()
    again = forward(another(given["x"]).to(devs[0]))  # neither counted nor timed
    crossed = [copy for *places, copy in copies.tensors if "cpu" not in places]
    cpu = run.trace.copied(source="cpu") + run.trace.copied(target="cpu")
    return {
        "output": returned,
        "again": plain(again),
        "gradient": to_cpu(x.grad),
        "places": [str(output.device)] if there else [],
        "crossings": run.crossings(),
        "crossed": to_cpu(crossed[0]) if crossed else None,
        "over_cpu": sum(cpu),
        "computed": dict.fromkeys(map(str, devs), 0) | work.flops,
    }
