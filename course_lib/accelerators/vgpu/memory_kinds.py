"""What the memory of a virtual GPU is for: gradients, optimizer state, FSDP's own."""

from __future__ import annotations

import weakref

from course_lib.accelerators.dtensors import local_part
from course_lib.accelerators.training_phases import Phase
from course_lib.accelerators.virtual import machine

# the optimizer whose step has begun, and the phase before it; weak, since a step that
# fails does not call the hook at its end
_steps: list = []


# what FSDP2 packs and unpacks to send it, by how the names of its operators begin
_SHARDED = {
    "all_gather_copy_in": "parameters",
    "split_with_sizes_copy": "parameters",
    "chunk_cat": "gradients",
}


def mark_kind(kind, tensors) -> None:
    """Let the memory of tensors on virtual GPUs count as one of `memory.KINDS`.

    Of a DTensor counts the part of this rank.
    """
    for tensor in tensors:
        block = getattr(local_part(tensor), "block", None)
        if block is not None:
            block.allocation.kind = kind


def kind_of(func) -> str | None:
    """Return of which kind the tensors are that an operator of FSDP2 works on."""
    name = func.overloadpacket.__name__
    kinds = (kind for start, kind in _SHARDED.items() if name.startswith(start))
    return next(kinds, None) if func.namespace == "fsdp" else None


def before_step(optimizer, args, kwargs) -> None:
    """Mark the gradients of an optimizer, whose step begins."""
    _steps[:] = [weakref.ref(optimizer), machine.clock.phase]
    machine.clock.phase = Phase("optimizer")
    for group in optimizer.param_groups:
        mark_kind("parameters", group["params"])
        mark_kind("gradients", [parameter.grad for parameter in group["params"]])


def after_step(optimizer, args, kwargs) -> None:
    """Mark the state of an optimizer, whose step has ended."""
    _mark_state(optimizer)
    machine.clock.phase = _steps[1] if _steps else None
    _steps.clear()


def mark_unfinished() -> None:
    """Mark what an optimizer has made so far, if its step has not ended."""
    optimizer = _steps[0]() if _steps else None
    if optimizer is not None:
        _mark_state(optimizer)


def _mark_state(optimizer):
    for state in optimizer.state.values():
        mark_kind("optimizer state", state.values())
