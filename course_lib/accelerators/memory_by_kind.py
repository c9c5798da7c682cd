"""Memory by kind: how much of a device is parameters, gradients, optimizer state."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from course_lib.accelerators import selection
from course_lib.accelerators.dtensors import local_part
from course_lib.accelerators.memory import KINDS, Memory
from course_lib.text import rank_order


def memory(model, optimizer=None) -> Memory:
    """Return what the chosen devices hold now, in bytes per device and kind.

    "activations" is all that is allocated beside the three other kinds: activations of
    a forward whose graph is alive, and inputs, buffers and temporaries. Of a DTensor
    counts the part of this rank.
    """
    held = {}
    parameters = list(model.parameters())
    state = [] if optimizer is None else tensors_in(optimizer.state)
    if optimizer is not None:
        # while FSDP has gathered weights, only the optimizer knows the rank's own parts
        parameters += [p for group in optimizer.param_groups for p in group["params"]]
    groups = (parameters, [p.grad for p in parameters if p.grad is not None], state)
    for kind, group in zip(KINDS, groups):
        for tensor in map(local_part, _once(group)):
            counts = held.setdefault(str(tensor.device), dict.fromkeys(KINDS, 0))
            counts[kind] += tensor.nbytes
    names = {name for name in held if name != "cpu"}
    devices = sorted(names | set(map(str, selection.chosen)), key=rank_order)
    for name in devices:
        module = torch.get_device_module(name)
        counts = held.setdefault(name, dict.fromkeys(KINDS, 0))
        rest = module.memory_allocated(name) - sum(counts.values())
        counts["activations"] = max(0, rest)
    capacity = {d: torch.get_device_module(d).mem_get_info(d)[1] for d in devices}
    virtual = any(name.startswith("vgpu") for name in devices)
    source = "counted on virtual GPUs" if virtual else "measured"
    return Memory({name: held[name] for name in devices}, capacity, source)


def tensors_in(value) -> Iterator[torch.Tensor]:
    """Yield all tensors in a value: of lists, tuples, dicts, modules."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part)


def _once(group):
    return {id(tensor): tensor for tensor in group}.values()
