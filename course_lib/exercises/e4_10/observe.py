"""Exercise 4.10, in a rank: a program is mended, and runs.

What an answer gives is text until here; it is compiled and run in ranks alone.
"""

import contextlib
import importlib
import linecache
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, DistributedSampler, Subset

from course_lib.exercises.compare import group, state_of
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.e4_10 import clinic, runs
from course_lib.exercises.e4_10.programs import Unfit, file_of, mended
from course_lib.exercises.values import plain


def observe(rank, world_size, answer, given):
    """Return the cures, and what the program does that they make; plain data."""
    found = {"returned": plain(answer()), "ran": False}
    name = given["run"]
    try:
        text = mended(found["returned"], name)
        code = _compiled(text, file_of(name))
    except Unfit:
        return found  # the judge says the same of what was returned
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return found | {"refused": _told(error)}
    watch = _watch_script if name == "E" else _watch_run
    with group(rank, world_size, gpus=False), _within_group():
        return found | {"ran": True} | watch(code, given)


def _compiled(text, file):
    """The code of a text, whose lines tracebacks then show."""
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return compile(text, file, "exec")


def _told(error):
    """What Python says of a text that is none of its own, in short."""
    line = getattr(error, "lineno", None)
    where = f"line {line}: " if isinstance(line, int) else ""
    return f"{where}{type(error).__name__}: {getattr(error, 'msg', error)}"[:300]


@contextlib.contextmanager
def _within_group():
    """Let a program find the group of the check where it would join and leave."""
    count = torch.cuda.device_count
    join, leave = dist.init_process_group, dist.destroy_process_group
    torch.cuda.device_count = lambda: 0  # on the CPU all numbers are the same
    dist.init_process_group = dist.destroy_process_group = lambda *_, **__: None
    try:
        yield
    finally:
        torch.cuda.device_count = count
        dist.init_process_group, dist.destroy_process_group = join, leave


def _watch_run(code, given):
    """What run A, B, C or D gives, also by `others`, and the weights of its start."""
    starts = []

    class Noting(DDP):
        """Notes with which weights a training begins."""

        def __init__(self, module, *args, **kwargs):
            super().__init__(module, *args, **kwargs)
            starts.append(state_of(module))

    names = _notebook() | {"DDP": Noting}
    exec(code, names)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    run = _function(names, f"run_{given['run'].lower()}")
    results = [
        _named(run(rank, world_size, *arguments), given["parts"])
        for arguments in (given["arguments"], *given["others"])
    ]
    return {"results": results, "starts": starts[:1]}


def _function(names, name):
    """The function that a text has to define."""
    if not callable(names.get(name)):
        raise RuntimeError(f"the program has no function {name} any more")
    return names[name]


def _notebook():
    """The names of the exercise's notebook."""
    names = {"__name__": "__main__", "os": os, "torch": torch, "dist": dist, "nn": nn}
    loaders = {one.__name__: one for one in (DataLoader, DistributedSampler, Subset)}
    functions = {
        "cl": importlib.import_module("course_lib"),  # as in a notebook
        "join": runs.join,
        "cross_entropy": nn.functional.cross_entropy,
        "nullcontext": contextlib.nullcontext,
    }
    return names | loaders | functions


def _named(returned, names):
    """What a program returned, by names; under `other` if those are not its parts."""
    values = (returned,) if len(names) == 1 else returned
    if not isinstance(values, tuple | list) or len(values) != len(names):
        return {"other": plain(returned)}
    found = dict(zip(names, values))
    state = state_of(found.pop("weights"))
    return {name: plain(value) for name, value in found.items()} | {"weights": state}


class _Reads(Traffic):
    """Notes each sample that a backward may follow, by its number; -1 for others."""

    def __init__(self, images):
        super().__init__(clinic.make_model())
        self.read = []
        self._numbers = {_bytes(image): i for i, image in enumerate(images)}

    def note_training(self, weight, samples):
        self.read.append([self._numbers.get(_bytes(row), -1) for row in samples])


def _bytes(image):
    return image.detach().cpu().numpy().tobytes()


def _watch_script(code, given):
    """What run E gives, which samples it read, its first gradient, what it tested."""
    names: dict[str, Any] = {"__name__": "clinic"}
    first, constants = [], given["constants"]
    exec(code, names)
    # with constants that nobody has seen, and so without what it prints of them
    names.update(constants, print=lambda *_, **__: None)
    images, _ = clinic.load_data()[0].tensors

    def note(optimizer, *_):
        if not first:
            first.append(_gradients(optimizer))

    handle = register_optimizer_step_pre_hook(note)
    try:
        with _Reads(images[: constants["TRAIN"]]) as work:
            returned = _function(names, "train")(dist.get_rank(), dist.get_world_size())
    finally:
        handle.remove()
    trained = sum(number >= 0 for read in work.read for number in read)
    return {
        "results": [_named(returned, ("weights", "right", "count"))],
        "read": work.read,
        "tested": sum(work.passes) - trained,
        "gradients": first[0] if first else [],
    }


def _gradients(optimizer):
    """The gradients of all parameters, in the order of the optimizer."""
    groups = (group["params"] for group in optimizer.param_groups)
    grads = [p.grad for group in groups for p in group if p.grad is not None]
    return plain([grad.clone() for grad in grads])
