"""Schedules of a pipeline on a clock: when each instruction runs, on which device."""

from collections import defaultdict
from itertools import accumulate
from typing import NamedTuple

from course_lib.errors import UsageError

_UNITS = {"forward": 1, "backward": 2}
KINDS = tuple(_UNITS)


class Stretch(NamedTuple):
    """An instruction that a device carries out from `start` to `stop`, in units."""

    device: int
    stage: int
    kind: str
    number: int
    start: float
    stop: float


class Timetable(NamedTuple):
    """What `devices` do with their `stages`; `stuck` says why it does not end."""

    devices: int
    stages: int
    stretches: list[Stretch]
    stuck: str = ""

    @property
    def span(self) -> float:
        """Return units until the last instruction ends."""
        return max((stretch.stop for stretch in self.stretches), default=0)

    @property
    def bubble(self) -> float:
        """Return the share of the time of all devices in which they wait."""
        work = sum(stretch.stop - stretch.start for stretch in self.stretches)
        return 1 - work / (self.devices * self.span) if self.span else 0

    @property
    def peak(self) -> float:
        """Return how many micro-batches are alive on a device at most."""
        return max(self.most(device, self.span) for device in range(self.devices))

    def waiting(self, start: float, stop: float) -> list[int]:
        """Return the devices that wait in this time, or in a part of it."""
        work = [0.0] * self.devices
        for stretch in self.stretches:
            both = min(stretch.stop, stop) - max(stretch.start, start)
            work[stretch.device] += max(0, both)
        return [device for device, time in enumerate(work) if time < stop - start]

    def alive(self, device: int, time: float) -> float:
        """Return how many micro-batches went forward, and not yet all the way back.

        On a device with two stages each of them counts half.
        """
        own = [stretch for stretch in self.stretches if stretch.device == device]
        begun = sum(s.kind == "forward" and s.start < time for s in own)
        ended = sum(s.kind == "backward" and s.stop <= time for s in own)
        return (begun - ended) * self.devices / self.stages

    def most(self, device: int, time: float) -> float:
        """Return how many were alive at most, from the beginning on."""
        own = [s for s in self.stretches if s.device == device and s.start < time]
        counts = accumulate(1 if s.kind == "forward" else -1 for s in own)
        return max(counts, default=0) * self.devices / self.stages


def played(instructions, devices: int) -> Timetable:
    """Run a list of (stage, "forward" or "backward", micro-batch) on a clock.

    Each device takes its own in their order, each as soon as its input is there. With
    more stages than devices, device d has the stages d, d + devices and so on, and all
    take the same part of a forward's one unit, or of a backward's two.

    Errors: `UsageError` for what is no instruction, or stands there twice.
    """
    instructions = list(map(_checked, instructions))
    if len({*instructions}) < len(instructions):
        raise UsageError("an instruction stands twice in this schedule")
    queues = defaultdict(list)
    for instruction in instructions:
        queues[instruction[0] % devices].append(instruction)
    highest = max((stage for stage, *_ in instructions), default=0)
    chunks = highest // devices + 1  # stages of each device
    stretches = _run(queues, chunks * devices, chunks)
    return Timetable(devices, chunks * devices, stretches, _stuck(queues))


def _run(queues, stages, chunks):
    """Take from the queues what can run; what cannot stays there."""
    free, done, stretches = defaultdict(int), {None: 0}, []
    before = None
    while before != len(stretches):
        before = len(stretches)
        for device, queue in queues.items():
            while queue and all(needed in done for needed in _inputs(queue[0], stages)):
                stage, kind, number = instruction = queue.pop(0)
                came = max(done[needed] for needed in _inputs(instruction, stages))
                start = max(free[device], came)
                free[device] = done[instruction] = start + _UNITS[kind]
                times = start / chunks, free[device] / chunks
                stretches.append(Stretch(device, stage, kind, number, *times))
    return stretches


def _inputs(instruction, stages):
    """Return what must have ended before; None is always there."""
    stage, kind, number = instruction
    if kind == "forward":
        return [(stage - 1, kind, number) if stage else None]
    own = stage, "forward", number
    return [own, (stage + 1, kind, number)] if stage + 1 < stages else [own]


def _stuck(queues):
    for device, queue in sorted(queues.items()):
        for stage, kind, number in queue:
            return (
                f"Device {device} waits for ever: {kind} {number} of stage {stage} "
                "never gets its input."
            )
    return ""


def _checked(instruction):
    try:
        stage, kind, number = instruction
        if kind in _UNITS and stage >= 0 and number >= 0:
            return int(stage), kind, int(number)
    except (TypeError, ValueError):
        pass
    raise UsageError(
        "an instruction is (stage, 'forward' or 'backward', micro-batch): "
        f"found {instruction!r:.60}"
    )
