"""The clock of the virtual GPUs: when the host, the devices and the links are free.

Every device is a queue, as one CUDA stream is: the host launches operators and runs
ahead, a device works them off in order. Nothing here measures anything: all times are
modelled, in seconds, and the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from course_lib.accelerators.hardware import Link, transfer_time
from course_lib.accelerators.memory import Transfer
from course_lib.accelerators.training_phases import Phase

HOST = -1  # the index of the host among the devices


class Launches:
    """What ran while the clock was watched, in the order of the launches."""

    def __init__(self, start: float):
        self.start = start
        self.operators: list[tuple[int, float, float, Phase | None]] = []
        self.transfers: list[Transfer] = []


class Clock:
    """The modelled time of a host with `names` of devices, in seconds since zero."""

    def __init__(self, names: tuple[str, ...], *, link: Link, host_link: Link, launch):
        self.names, self.link, self.host_link = names, link, host_link
        self.launch = launch
        self.host, self.free = 0.0, [0.0] * len(names)
        self.phase: Phase | None = None
        self.launches: Launches | None = None

    def operate(self, index: int, seconds: float, launches: float = 1.0) -> None:
        """Launch an operator that lasts `seconds` on a device.

        The host pays for it as for `launches` usual ones.
        """
        self.host += launches * self.launch
        start = max(self.host, self.free[index])
        self.free[index] = stop = start + seconds
        if self.launches is not None:
            self.launches.operators.append((index, start, stop, self.phase))

    def copy(self, source: int, target: int, *, bytes: int, name="copy", wait=True):
        """Launch a copy; with the host it waits for the end unless `wait` is False.

        PyTorch lets a copy wait for the queues of both devices, and both for the copy:
        https://docs.pytorch.org/docs/stable/notes/cuda.html
        """
        self.host += self.launch
        ends = [index for index in (source, target) if index != HOST]
        link = self.link if len(ends) == 2 else self.host_link
        start = max([self.host, *(self.free[index] for index in ends)])
        stop = start + transfer_time(link, bytes)
        for index in ends:
            self.free[index] = stop
        if len(ends) == 1 and wait:
            self.host = stop
        self._note(name, source, target, bytes=bytes, times=(start, stop))

    def hand_on(self, chain: Sequence[int], *, bytes: int, name: str) -> None:
        """Launch a collective in which each device of `chain` hands on to the next.

        One kernel on each, and none begins before all devices are free. The tensor goes
        piece by piece, so that every link is as long at work, a latency after the one
        before it: NCCL's ring for broadcast and reduce (Hu et al., 2025, Demystifying
        NCCL, https://arxiv.org/abs/2507.04786). That a piece has a length is left out.
        """
        self.host += self.launch * len(chain)
        start = max([self.host, *(self.free[index] for index in chain)])
        seconds = transfer_time(self.link, bytes)
        for source, target in pairwise(chain):
            stop = start + seconds
            self.free[source] = self.free[target] = stop
            self._note(name, source, target, bytes=bytes, times=(start, stop))
            start += self.link.latency

    def _note(self, name, source, target, *, bytes, times):
        if self.launches is not None:
            first, last = map(self._name, (source, target))
            transfer = Transfer(name, first, last, bytes, *times)
            self.launches.transfers.append(transfer)

    def _name(self, index):
        return "cpu" if index == HOST else self.names[index]

    def wait(self, index: int | None = None) -> float:
        """Let the host wait for one device or all, and return its time in seconds."""
        free = self.free if index is None else [self.free[index]]
        self.host = max(self.host, *free)
        return self.host

    def watch(self) -> Launches:
        """Let all devices end their work, then note what runs: anew."""
        self.wait()
        self.phase = None
        self.launches = Launches(self.host)
        return self.launches
