"""What the memory of a virtual GPU is for: gradients and optimizer state."""

from __future__ import annotations

from course_lib.regions import Region
from course_lib.virtual import machine

_steps: list = []  # the optimizer whose step has begun, and the region before it


def mark(kind, tensors) -> None:
    """Let the memory of tensors on virtual GPUs count as one of `ledger.KINDS`."""
    for tensor in tensors:
        block = getattr(tensor, "block", None)
        if block is not None:
            block.lease.kind = kind


def before_step(optimizer, args, kwargs) -> None:
    """A hook of all optimizers: their gradients are known now."""
    _steps[:] = [optimizer, machine.clock.region]
    machine.clock.region = Region("optimizer")
    for group in optimizer.param_groups:
        mark("gradients", [parameter.grad for parameter in group["params"]])


def after_step(optimizer, args, kwargs) -> None:
    """A hook of all optimizers: their state is known now."""
    _mark_state(optimizer)
    machine.clock.region = _steps[1] if _steps else None
    _steps.clear()


def mark_unfinished() -> None:
    """Mark what an optimizer has made so far, if its step has not ended."""
    if _steps:
        _mark_state(_steps[0])


def _mark_state(optimizer):
    for state in optimizer.state.values():
        mark("optimizer state", state.values())
