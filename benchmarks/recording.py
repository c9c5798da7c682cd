"""What `trace=True` costs: the same launches with and without it, alternating."""

import statistics
import time

from benchmarks import report
from course_lib.launching.launcher import launch

ROUNDS = 12
_INTRODUCTION = """# Recording a trace

Seconds in the function of rank 0, on two ranks: median (smallest to largest), with
and without `trace=True`, alternating in {} rounds. The last row is the whole launch.
"""


def train(rank, world_size, *, width, depth, steps):
    """Train a network of `depth` square layers under DDP with gloo."""
    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo")
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(64, width)
    began = 0.0
    for step in range(steps + 2):
        if step == 2:  # the first steps import and build buckets
            began = time.monotonic()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return time.monotonic() - began


def reduce_once(rank, world_size):
    """All-reduce one number."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))


CASES = {
    "100 steps of a small network (2 layers of 64)": (
        train,
        {"width": 64, "depth": 2, "steps": 100},
    ),
    "10 steps of 16.8 MB in 4 MB buckets (4 layers of 1024)": (
        train,
        {"width": 1024, "depth": 4, "steps": 10},
    ),
    "a launch with one all-reduce": (reduce_once, {}),
}


def run(rounds: int | None = None) -> str:
    """Measure all cases; a report in Markdown comes back."""
    launch(reduce_once)
    time.sleep(5)  # the fork server imports what it needs later
    times = {}
    for turn in range(rounds or ROUNDS):
        report.say(f"recording: round {turn + 1}")
        for name in CASES:
            for trace in (False, True) if turn % 2 else (True, False):
                times.setdefault((name, trace), []).append(_time(name, trace))
    rows = [_row(name, times) for name in CASES]
    head = ["two ranks do", "without", "with `trace=True`", "ratio"]
    parts = [_INTRODUCTION.format(rounds or ROUNDS), report.table(head, rows)]
    return "\n".join([*parts, report.conditions()])


def _time(name, trace):
    function, options = CASES[name]
    began = time.monotonic()
    inside = launch(function, world_size=2, trace=trace, **options)[0]
    return inside if inside is not None else time.monotonic() - began


def _row(name, times):
    plain, traced = times[name, False], times[name, True]
    ratio = statistics.median(traced) / statistics.median(plain)
    spreads = [report.spread(values, ".3f") for values in (plain, traced)]
    return [name, *spreads, f"{ratio:.2f} ×"]
