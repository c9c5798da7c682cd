"""Exercise 4.8, in a rank: a training that is killed, or whose disk is full."""

import hashlib
import os
import signal
from pathlib import Path

import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from course_lib.exercises import baseline
from course_lib.exercises.counted_work import Work

# the same folder is watched and the same limit set as in 8.3
from course_lib.exercises.e8_3.observe import Faults, limit_files, noted_writes
from course_lib.exercises.file_states import FolderStates, keep, restore
from course_lib.exercises.values import number_of, plain

EVERY = 3  # steps that may be done twice
_ROOM = 2000  # bytes of a file on a full disk; the weights alone have more


def network(dropout: float, seed: int) -> nn.Module:
    """Return a model of one tensor, f32[10, 64], after a dropout of its samples.

    With one tensor DDP's order of tensors in a bucket, which changes in its second
    step, rounds nothing otherwise. So weights are the same bit for bit.
    """
    with baseline.seeded(seed):
        linear = nn.Linear(64, 10, bias=False)
    return nn.Sequential(nn.Flatten(), nn.Dropout(dropout), linear)


class FaultyTraining(Faults):
    """Notes the steps of a training in `steps`, and is the fault in some of them.

    `die`: this rank is killed in the step after so many. `full`: from the end of one
    step to the end of another the disk is full. `dying`: after so many steps the next
    file that it writes kills it, half written. `states` take in what a kill would
    leave, in each moment.
    """

    def __init__(self, model, states=None, *, die=None, full=(None, None), dying=None):
        super().__init__(model, states)
        self.die, self.full, self.dying = die, full, dying
        self.steps = []
        self._batch = self._mask = ""

    def __enter__(self):
        self._hooks = [
            register_module_forward_pre_hook(self._note_batch),
            register_optimizer_step_pre_hook(self._begin),
            register_optimizer_step_post_hook(self._end),
        ]
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()
        if self.full[0] is not None or self.dying is not None:
            limit_files(None)  # what the rank returns is written to a file, too

    def look(self, *, step_begins=False):
        """Note the states of the folder, and how many steps must be saved in them."""
        if self.states:
            saved = max(len(self.steps) - EVERY, 0)
            self.states.look(saved, saved)

    def note_pass(self, packet, args):
        """Note which samples dropout has left of a pass."""
        passes = len(self.passes)
        Work.note_pass(self, packet, args)
        if len(self.passes) > passes:
            self._mask = _digest(args[self._places[packet][1]] != 0)

    def _note_batch(self, module, args):
        if args and type(module) is nn.Flatten:
            self._batch = _digest(args[0])

    def _begin(self, optimizer, *_):
        """The gradients are there, so all ranks have come to this step."""
        self.look()
        done = len(self.steps)
        if done == self.full[1]:
            limit_files(None)
        if done == self.die:
            os.kill(os.getpid(), signal.SIGKILL)
        params = [p for group in optimizer.param_groups for p in group["params"]]
        momenta = [optimizer.state.get(p, {}).get("momentum_buffer") for p in params]
        row = {"weights": _digest(*params), "momentum": _digest(*momenta)}
        row |= {"batch": self._batch, "mask": self._mask}
        rate = number_of(plain(optimizer.param_groups[0]["lr"]))
        self.steps.append(row | {"rate": 0.0 if rate is None else rate})

    def _end(self, *_):
        done = len(self.steps)
        if done in (self.full[0], self.dying):
            limit_files(_ROOM)
        if done == self.full[0]:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write raises then


def _digest(*tensors):
    """A text that is the same for the same numbers, bit for bit."""
    whole = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            whole.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return whole.hexdigest()[:12]


def observe(rank, world_size, answer, given):
    """Return what a training gives, its steps, and the files that it has written."""
    folder = Path(given["folder"])
    if "state" in given:
        restore(folder, given["state"])
    states = FolderStates(folder) if "record" in given else None
    model, faults = network(given["dropout"], given["seed"]), dict(given["faults"])
    if rank not in given.get("full ranks", [rank]):
        faults.pop("full", None)
    training = FaultyTraining(model, states, **faults)
    with training, noted_writes(folder, training) as writes:
        data, epochs = given["data"], given["epochs"]
        weights = answer(rank, world_size, model, data, epochs, str(folder))
    if states:
        training.look()
        keep(states.close(), Path(given["record"]))
    return {
        "returned": plain(weights),
        "steps": training.steps,
        "passes": len(training.passes),
        "saves": sorted({passes for passes, _ in writes}),
        "files": sorted({name for _, name in writes}),
        "left": not dist.is_initialized(),
    }
