"""The phases of a training step: one forward, one backward, one optimizer step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules import module as modules

from course_lib.system.patching import patch


@dataclass(frozen=True, eq=False)
class Phase:
    """What operators belong to; two phases of one name are two."""

    name: str


def phase_names(uses: Iterable[tuple[object, Phase | None]]) -> dict:
    """Return the name of each phase on each device: `forward`, `forward 0`.

    `uses` are pairs of a device and a phase in order, None for no phase ("other").
    """
    phases = {}
    for device, phase in uses:
        name = phase.name if phase else "other"
        phases.setdefault((device, name), {})[phase] = None
    return {
        (device, phase): f"{name} {number}" if len(several) > 1 else name
        for (device, name), several in phases.items()
        for number, phase in enumerate(several)
    }


@contextmanager
def watch_phases(phase: Callable) -> Iterator[None]:
    """Enter and leave the context `phase(name, module)` with each phase in the block.

    "forward" is the outermost call of a module in this thread, "backward" one of
    torch.autograd.backward or grad; its module is None. Optimizer steps are told by
    hooks of PyTorch, and by its profiler.
    """
    calls = _Calls(phase)
    with ExitStack() as stack:
        stack.callback(calls.close)
        for handle in (
            modules.register_module_forward_pre_hook(calls.enter),
            modules.register_module_forward_hook(calls.leave, always_call=True),
        ):
            stack.callback(handle.remove)
        for name in ("backward", "grad"):
            patch(stack, (torch.autograd, name), calls.backward)
        yield


class _Calls:
    """The calls of modules and of backward that one thread is in, outermost first."""

    def __init__(self, phase):
        self.phase, self.depth = phase, 0
        self.context: Any = None
        self.thread = threading.get_ident()

    def enter(self, module, args=(), name="forward"):
        if torch.compiler.is_compiling():  # where this must not be seen
            return
        if threading.get_ident() == self.thread:
            if not self.depth:
                self.context = self.phase(name, module)
                self.context.__enter__()
            self.depth += 1

    def leave(self, *_):
        if torch.compiler.is_compiling():
            return
        if threading.get_ident() == self.thread and self.depth:
            self.depth -= 1
            if not self.depth:
                self.context.__exit__(None, None, None)

    def backward(self, original, /, *args, **kwargs):
        self.enter(None, name="backward")
        try:
            return original(*args, **kwargs)
        finally:
            self.leave()

    def close(self):
        """End the phase that an interrupt left open."""
        self.depth = min(self.depth, 1)
        self.leave()
