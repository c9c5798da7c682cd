"""Exercise 3.1, in a rank: two data-parallel steps by hand, watched; parts for 3.2."""

import copy
from functools import partial

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import state_of
from course_lib.exercises.counted_work import Work, everywhere, flops_of
from course_lib.exercises.device_runs import on_devices, watch
from course_lib.exercises.values import plain
from course_lib.tracing.events import Trace


def observe(rank, world_size, answer, given):
    """Return what `answer` leaves in a model on several devices, and what it costs.

    Two steps in a row: replicas that are kept from the first are old in the second.
    """
    devs = on_devices(given["devices"])
    model = copy.deepcopy(given["model"]).to(devs[0])
    # first, for an answer may put another loss in the place of PyTorch's
    steps, flops = [], flops_of([baseline.samples(1)])
    for batch in given["batches"]:
        data = [part.to(devs[0]) for part in batch]
        steps.append(_step(partial(answer, model, *data, devs), model, devs))
        sgd = baseline.optimizer(model)
        sgd.step()
        sgd.zero_grad()
    return {
        "devices": tuple(map(str, devs)),
        "steps": steps,
        "baseline": {"flops": flops},
    }


def watched(call, model, devs):
    """Return a result, FLOPs by device, and the trace of what travelled."""
    work = Work(model)
    with everywhere(work):
        run = watch(call, devs)
    # what is drawn needs no more, and all else takes long to send
    trace = Trace((), run.trace.source, run.trace.transfers)
    return run.result, {"flops": work.flops, "trace": trace}


def place_of(module: nn.Module) -> str:
    """Return the device of a module, or all that it lies on."""
    return " and ".join(sorted({str(p.device) for p in module.parameters()}))


def _step(call, model, devs):
    before = state_of(model)
    result, cost = watched(call, model, devs)
    grads = {n: p.grad for n, p in model.named_parameters() if torch.is_tensor(p.grad)}
    after = state_of(model)
    return cost | {
        "returned": plain(result),
        "place": place_of(model),
        "moved": [n for n in before if not torch.equal(before[n], after[n])],
        "gradients": state_of(grads),
    }
