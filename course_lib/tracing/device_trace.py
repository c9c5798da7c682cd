"""Trace a block of a notebook: what each device did, what was copied, what was held."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from course_lib.accelerators.clock import Clock, Launches
from course_lib.accelerators.memory import Account, changes
from course_lib.accelerators.training_phases import Phase, phase_names, watch_phases
from course_lib.accelerators.virtual import machine
from course_lib.errors import UsageError
from course_lib.tracing.events import Event, Trace, both_ends


@contextmanager
def trace() -> Iterator[Trace]:
    """Record what the devices do in the block; the trace is filled at its end.

    Virtual GPUs give modelled times (seconds), and also fill `transfers` and `memory`.
    On real GPUs PyTorch's profiler measures.

    Errors: UsageError inside of another trace, or without devices.
    """
    result = Trace((), "nothing yet: a trace is filled at the end of its block")
    record = _record_virtual if machine.count else _record_real
    with record(result):
        yield result


@contextmanager
def _record_virtual(result):
    clock = machine.clock
    if clock.launches is not None:
        raise UsageError("a trace runs already: end its block before the next one.")
    accounts = [place.account for place in machine.places]
    launches = clock.watch()
    for account in accounts:
        account.settle()
        account.history = list(account.held)
    try:
        with watch_phases(_Phases(clock).phase):
            yield
    finally:
        clock.wait()
        clock.launches = clock.phase = None
        _fill(result, launches, accounts)


class _Phases:
    """Tells the clock in which forward, backward or optimizer step operators run."""

    def __init__(self, clock: Clock):
        self.clock, self.modules = clock, {}

    @contextmanager
    def phase(self, name: str, module) -> Iterator[None]:
        """Let the clock know the phase in a block."""
        from course_lib.accelerators.vgpu import mark_kind

        self.clock.phase = Phase(name)
        if module is not None:
            self.modules[id(module)] = module
            mark_kind("parameters", module.parameters())  # parts of FSDP bear no mark
        yield
        if name == "backward":
            # tell gradients from activations, before they are set to None
            for module in self.modules.values():
                mark_kind("gradients", (p.grad for p in module.parameters()))
        self.clock.phase = None


def _fill(result: Trace, launches: Launches, accounts: list[Account]) -> None:
    names, zero = machine.clock.names, launches.start
    transfers = [
        replace(copy, start=copy.start - zero, stop=copy.stop - zero)
        for copy in launches.transfers
    ]
    events = list(_computing(launches, names))
    for transfer in transfers:
        events += both_ends(transfer)
    memory = []
    for name, account in zip(names, accounts):
        account.settle()
        memory += changes(name, account.history or [], zero)
        account.history = None
    whole = Trace(tuple(events), machine.source, tuple(transfers), tuple(memory))
    _assign(result, whole)


def _assign(result: Trace, filled: Trace) -> None:
    # a trace is frozen for who reads it; this one was given out before its end
    vars(result).update(vars(filled))


def _computing(launches: Launches, names) -> Iterator[Event]:
    """One event for operators of one phase that follow each other without a gap."""
    names_of = phase_names((index, phase) for index, _, _, phase in launches.operators)
    runs = [[] for _ in names]  # for each device: first start, last stop, phase
    for index, start, stop, phase in launches.operators:
        last = runs[index][-1] if runs[index] else None
        if last and phase is last[2] and start - last[1] < 1e-12:
            start = runs[index].pop()[0]
        runs[index].append((start, stop, phase))
    for index, name in enumerate(names):
        for start, stop, phase in runs[index]:
            label, zero = names_of[index, phase], launches.start
            yield Event(name, "compute", label, start - zero, stop - zero)


@contextmanager
def _record_real(result):
    if not torch.cuda.is_available():
        raise UsageError("there are no devices to trace: call cl.devices(n) first.")
    from course_lib.tracing.cuda import profile

    with profile(functools.partial(_assign, result)):
        yield
