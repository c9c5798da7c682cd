"""What the memory of a virtual GPU is for: gradients and optimizer state."""

from __future__ import annotations

import weakref

from course_lib.accelerators.training_phases import Phase
from course_lib.accelerators.virtual import machine

# the optimizer whose step has begun, and the phase before it; weak, since a step that
# fails does not call the hook at its end
_steps: list = []


def mark_kind(kind, tensors) -> None:
    """Let the memory of tensors on virtual GPUs count as one of `memory.KINDS`."""
    for tensor in tensors:
        block = getattr(tensor, "block", None)
        if block is not None:
            block.allocation.kind = kind


def before_step(optimizer, args, kwargs) -> None:
    """Mark the gradients of an optimizer, whose step begins."""
    _steps[:] = [weakref.ref(optimizer), machine.clock.phase]
    machine.clock.phase = Phase("optimizer")
    for group in optimizer.param_groups:
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
