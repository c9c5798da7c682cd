"""Memory by kind: how much of a device is parameters, gradients, optimizer state."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from course_lib import accelerators
from course_lib.ledger import KINDS, Memory
from course_lib.timeline import rank_order


def memory(model, optimizer=None) -> Memory:
    """What the chosen devices hold now, in bytes per device and kind.

    "activations" is all that is allocated beside the three other kinds: activations of
    a forward whose graph is alive, and inputs, buffers and temporaries.
    """
    held = {}
    parameters = list(model.parameters())
    state = [] if optimizer is None else _tensors(optimizer.state.values())
    groups = (parameters, [p.grad for p in parameters if p.grad is not None], state)
    for kind, tensors in zip(KINDS, groups):
        for tensor in _once(tensors):
            counts = held.setdefault(str(tensor.device), dict.fromkeys(KINDS, 0))
            counts[kind] += tensor.nbytes
    found = {name for name in held if name != "cpu"}
    devices = sorted(found | set(map(str, accelerators.chosen)), key=rank_order)
    for name in devices:
        module = torch.get_device_module(name)
        counts = held.setdefault(name, dict.fromkeys(KINDS, 0))
        rest = module.memory_allocated(name) - sum(counts.values())
        counts["activations"] = max(0, rest)
    capacity = {d: torch.get_device_module(d).mem_get_info(d)[1] for d in devices}
    virtual = any(name.startswith("vgpu") for name in devices)
    source = "counted on virtual GPUs" if virtual else "measured"
    return Memory({name: held[name] for name in devices}, capacity, source)


def _tensors(value) -> Iterable[torch.Tensor]:
    """All tensors in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(value.values())
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for each in value:
            yield from _tensors(each)


def _once(tensors):
    return {id(tensor): tensor for tensor in tensors}.values()
