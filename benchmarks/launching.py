"""How long launching ranks takes: six ways, alternating in one run."""

import os
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass

from benchmarks import report
from benchmarks.helper import ENVIRONMENT, Helper, LaunchFailed

SIZES = (2, 4, 8)
ROUNDS = 20
TITLES = {
    "warm": "**`course_lib.launch`, warm**",
    "cold": "`course_lib.launch`, cold (the first launch)",
    "kept": "workers kept and used again (the limit)",
    "notebook": "accelerate `notebook_launcher`",
    "spawn": "`torch.multiprocessing.spawn`",
    "torchrun": "`torchrun --standalone`",
}
SLOW = ("cold", "spawn", "torchrun")
_INTRODUCTION = """# Launching ranks

Each rank joins a gloo group, all-reduces one number, leaves the group and returns the
number. One thread per rank.
Milliseconds: median (smallest to largest). Ratio: to a warm launch.
The ways alternate in {} rounds; cold, spawn and torchrun take part in {} of them.
"""
_EVERY = 4  # rounds between two that measure the slow ways too
_CHANCES = 3
_SETTLE = 5  # seconds in which the fork server imports what it needs later


@dataclass(frozen=True)
class Goal:
    """`way` should take at least `limit` times as long as a warm launch."""

    world_size: int
    way: str
    limit: float
    text: str


GOALS = (
    Goal(2, "spawn", 40, "at least 40 times faster than spawn"),
    Goal(2, "torchrun", 70, "at least 70 times faster than torchrun"),
    Goal(2, "notebook", 1, "faster than `notebook_launcher`"),
    Goal(2, "kept", 1 / 3, "within 3 times of kept workers"),
    Goal(8, "kept", 1 / 2.5, "within 2.5 times of kept workers"),
)


def run(rounds: int | None = None) -> str:
    """Measure all ways and sizes; a report in Markdown comes back."""
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        report.say("launching: starting one process for each way")
        helpers = {}
        for way in TITLES:
            helper = Helper(way, most=max(SIZES), folder=folder)
            helpers[way] = stack.enter_context(closing(helper))
        # all are told to stop before the first is waited for
        for helper in helpers.values():
            stack.callback(helper.stop)
        _run_in(helpers)
        times = measure(helpers, rounds or ROUNDS)
        failures = {way: helper.failures for way, helper in helpers.items()}
    return describe(times, failures)


def _run_in(helpers):
    """One launch in every way that is not counted: imports, and files into memory."""
    for helper in helpers.values():
        helper.ask(2)
    for helper in helpers.values():
        helper.answer()
    time.sleep(_SETTLE)


def measure(helpers: dict, rounds: int) -> dict[tuple[str, int], list[float]]:
    """Seconds of each launch, by way and world size."""
    times, began = {}, time.monotonic()
    for turn in range(rounds):
        spent = time.monotonic() - began
        report.say(f"launching: round {turn + 1} of {rounds}, after {spent:.0f} s")
        for world_size in SIZES:
            for way in order(list(helpers), turn):
                seconds = time_launch(helpers[way], world_size)
                times.setdefault((way, world_size), []).append(seconds)
    return times


def order(ways: list[str], turn: int) -> list[str]:
    """The ways of one round; each is first in its turn, slow ones come every fourth."""
    due = [way for way in ways if way not in SLOW or turn % _EVERY == 0]
    start = (turn + turn // _EVERY) % len(due)
    return due[start:] + due[:start]


def time_launch(helper, world_size: int) -> float:
    """Seconds of one launch; one that fails is counted, and repeated twice at most."""
    for chance in range(_CHANCES):
        try:
            return _time(helper, world_size)
        except LaunchFailed as error:
            if chance == _CHANCES - 1:
                raise
            report.say(f"launching: {error}".partition("\n")[0])
            helper.renew()


def _time(helper, world_size):
    helper.ask(world_size)
    seconds, values = helper.answer()
    expected = [float(sum(range(world_size)))] * world_size
    if values != expected:
        raise RuntimeError(
            f"launching {world_size} ranks by {helper.way}: they returned {values},"
            f" expected {expected}"
        )
    return seconds


def ratio(times: dict, way: str, world_size: int) -> float:
    """How many times as long as a warm launch `way` takes, by medians."""
    median = statistics.median
    return median(times[way, world_size]) / median(times["warm", world_size])


def describe(times: dict, failures: dict[str, int]) -> str:
    """The report: conditions, table of times, table of goals."""
    head = ["way of launching", *(f"{n} ranks | ratio" for n in SIZES)]
    rows = [[TITLES[way], *(_cell(times, way, n) for n in SIZES)] for way in TITLES]
    goals = [_judge(times, goal) for goal in GOALS]
    parts = [
        _INTRODUCTION.format(len(times["warm", 2]), len(times["spawn", 2])),
        report.table(head, rows),
        _tell_failures(times, failures),
        report.table(["goal", "found", "met"], goals),
        report.conditions(),
    ]
    return "\n".join(part for part in parts if part)


def _tell_failures(times, failures):
    """A sentence for each way that hung or failed."""
    sentences = [
        f"{TITLES[way]}: {count} of {_launches(times, way) + count} launches hung or"
        " failed; the table leaves them out.\n"
        for way, count in failures.items()
        if count
    ]
    return "\n".join(sentences)


def _launches(times, way):
    return sum(len(times[way, world_size]) for world_size in SIZES)


def _cell(times, way, world_size):
    values = [seconds * 1e3 for seconds in times[way, world_size]]
    found = _times(ratio(times, way, world_size))
    return f"{report.spread(values, ',.0f')} | {found}"


def _judge(times, goal):
    found = ratio(times, goal.way, goal.world_size)
    text = f"{goal.world_size} ranks: {goal.text}"
    met = "yes" if found >= goal.limit else "no"
    return [text, _times(found if goal.limit >= 1 else 1 / found), met]


def _times(number):
    return f"{number:.0f} ×" if number >= 10 else f"{number:.2f} ×"
