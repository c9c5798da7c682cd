"""What the meter adds to a launch: the same launch with one meter, and with two."""

import random
import statistics
import time
from contextlib import nullcontext

from benchmarks import report
from course_lib.launching.launcher import launch
from course_lib.tracing import messages, meter

ROUNDS = 60
MESSAGES = (100, 1000)  # of both ranks together
_INTRODUCTION = """# What the meter adds to a launch

Two ranks that send each other messages of 4 kB at the same time. Each launch has its
meter. Half of the launches do all of its work once more: they note each message a
second time, ask twice what the connections carried, and send both notes to the
notebook, where both are joined. What these take longer is what a meter costs. In turn,
in random order; of {} launches each, in ms: median (quartiles). Compared are lower
quartiles, as a busy machine meets them least.
"""
_HEAD = ["messages", "one meter", "two", "a meter adds"]


def talk(rank, world_size, count, *, twice):
    """Send and receive; with `twice` a second meter notes it, and notes come back."""
    import torch
    import torch.distributed as dist

    log, tensor = messages.Log(), torch.ones(1024)
    dist.init_process_group("gloo")
    if twice:
        log.look(new=True)
    with log.kept() if twice else nullcontext():
        for _ in range(count // world_size):
            sent = dist.isend(tensor, 1 - rank)
            dist.recv(tensor.clone(), 1 - rank)
            sent.wait()
    dist.destroy_process_group()
    return log.traffic() if twice else None


def run(rounds: int | None = None) -> str:
    """Measure; a report in Markdown comes back."""
    times = {(count, twice): [] for count in MESSAGES for twice in (False, True)}
    launch(talk, 4, twice=True)
    time.sleep(5)  # the fork server imports what it needs later
    for turn in range(rounds or ROUNDS):
        for key in random.Random(turn).sample(list(times), len(times)):
            times[key].append(_seconds(*key))
        if turn % 10 == 9:
            report.say(f"meter: round {turn + 1}")
    rows = [_row(count, times) for count in MESSAGES]
    introduction = _INTRODUCTION.format(len(times[MESSAGES[0], True]))
    return "\n".join([introduction, report.table(_HEAD, rows), report.conditions()])


def _seconds(count, twice):
    start = time.perf_counter()
    results = launch(talk, count, world_size=2, twice=twice)
    if twice:
        assert len(meter.join_ranks(list(results)).messages) == count
    assert len(results.meter.messages) == count
    return time.perf_counter() - start


def _row(count, times):
    one, two = times[count, False], times[count, True]
    share = statistics.quantiles(two)[0] / statistics.quantiles(one)[0] - 1
    return [f"{count:,}", _spread(one), _spread(two), f"{100 * share:.0f} %"]


def _spread(seconds):
    low, middle, high = (1000 * s for s in statistics.quantiles(seconds, n=4))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"
