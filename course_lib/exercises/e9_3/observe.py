"""Exercise 9.3, in a rank: a training of a GPT that is sharded, watched."""

import collections
import contextlib

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard
from torch.optim import optimizer as hooks

from course_lib.exercises.compare import group
from course_lib.exercises.counted_work import Work
from course_lib.exercises.device_runs import one_gpu

# of a collective, a part of the name of its operators
_CALLS = {"scatters": "reduce_scatter", "gathers": "allgather"}


class Steps(Work):
    """Notes what this rank held and did until each step of an optimizer, in `steps`.

    Of weights and gradients it keeps this rank's shards, flat, on the CPU.
    """

    def __init__(self, model: nn.Module, device, gpu):
        super().__init__(model)
        self.steps, self._calls = [], collections.Counter()
        self._model, self._device, self._gpu = model, device, gpu

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "c10d":
            name = operator.overloadpacket.__name__
            self._calls.update(one for one, part in _CALLS.items() if part in name)
        return super().__torch_dispatch__(operator, types, args, kwargs)

    @contextlib.contextmanager
    def noted(self):
        """Note each step of an optimizer in a block."""
        before = hooks.register_optimizer_step_pre_hook(self._note)
        after = hooks.register_optimizer_step_post_hook(self._begin)
        try:
            with self:
                yield
        finally:
            before.remove()
            after.remove()

    def _note(self, optimizer, *_):
        every = [p for one in optimizer.param_groups for p in one["params"]]
        mine = list(self._model.parameters())
        self.steps.append(
            {
                "peak": self._gpu.max_memory_allocated(self._device),
                **{call: self._calls[call] for call in _CALLS},
                "passes": [*self.passes],
                "taken": len(set(map(id, mine)) & set(map(id, every))),
                "settings": [_settings(optimizer, g) for g in optimizer.param_groups],
                **shards(self._model),
                "gradients": _flat(p.grad for p in mine if p.grad is not None),
            }
        )

    def _begin(self, *_):
        self._gpu.reset_peak_memory_stats(self._device)
        self._calls.clear()
        self.passes.clear()


def observe(rank, world_size, answer, given):
    """Return what each step of `answer(model, batches, k)` held and did on this rank.

    At the end its shards of the weights.
    """
    device, gpu = one_gpu()
    with group(rank, world_size, gpus=False):
        model = given["model"].to(device)
        batches = given["batches"][rank]
        batches = [tuple(part.to(device) for part in pair) for pair in batches]
        watched = Steps(model, device, gpu)
        with watched.noted():
            answer(model, batches, given["k"])
        return {"steps": watched.steps, "end": shards(model)}


def shards(model: nn.Module) -> dict:
    """Return this rank's numbers of all parameters, flat, and how each is cut.

    `dims` has the dimension along which a parameter is cut, or -1 if it is not.
    """
    parameters = list(model.parameters())
    return {
        "fsdp": isinstance(model, FSDPModule),
        "dims": list(map(_dim, parameters)),
        "weights": _flat(parameters),
    }


def _settings(optimizer, group):
    """What decides a step, by name; the class is AdamW also for its own classes."""
    adamw = isinstance(optimizer, torch.optim.AdamW)
    name = "AdamW" if adamw else type(optimizer).__name__
    rest = {key: group.get(key) for key in ("weight_decay", "eps", "amsgrad")}
    lr = group["lr"]
    return {"class": name, "lr": lr.item() if torch.is_tensor(lr) else lr, **rest}


def _dim(p):
    placements = p.placements if isinstance(p, DTensor) else ()
    cut = (one.dim for one in placements if isinstance(one, Shard))
    return next(cut, -1)


def _flat(tensors):
    local = (t.to_local() if isinstance(t, DTensor) else t for t in tensors)
    parts = [t.detach().cpu().flatten().float() for t in local]
    return torch.cat(parts) if parts else torch.empty(0)
