"""The model of a DDP step: fitted to one network here, and beside published curves."""

import statistics
import time

from benchmarks import published_scaling, report
from course_lib import text
from course_lib.accelerators.alpha_beta import fit
from course_lib.clusters.scaling import Network, TrainingStep, predict
from course_lib.launching.launcher import launch

ROUNDS = 5
RANKS = (1, 2)
GOAL = 0.15  # of the measured time
SIZES = [2**power for power in range(12, 25)]
MODELS = ("deep", "transformer", "wide")
FITTED, *HELD = MODELS
PARTS = ("forward", "backward", "optimizer")
_INTRODUCTION = """# A model of a training step, beside what was measured

`course_lib/clusters/scaling.py` adds up a DDP step: computation, all-reduces of buckets
by α and β that overlap with backward, what is exposed after it.

## Fitted to one network, tried on two others

On ranks of this machine, by gloo, one thread each. Measured in turn, {rounds} times in
a launch: forward, backward and optimizer without DDP, on all ranks at the same time; a
step of DDP; all-reduces of 4 KiB to 16 MiB. A time is the lower quartile, of the
slowest rank, in the quickest of {launches} launches: what else the machine does only
adds to it. Four constants come from this: α and β, from the all-reduces; what DDP adds
per byte of gradients, on one rank; and "drag", how much longer backward takes for each
second of an all-reduce beside it, since both want the same cores. The last two are
fitted to the network "{fitted}" alone. Then the DDP steps of the others are predicted:
their computation without DDP is measured, their communication is not. Beside the model
stand DDP steps of the quickest launch (the median, the slowest). Errors are modelled ÷
measured − 1, in %. The goal is {goal:.0%}; how many launches are within it is counted.
"""
_CONSTANTS = ["α, µs", "β, ns per byte", "DDP adds, ns per byte", "drag"]
_HEAD = ["network", "gradients", "buckets", "ranks", "plain, ms", "DDP, ms"]
_HEAD += ["modelled, ms", "error, %", "within the goal"]


def network(name):
    """A network, and a batch for it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if name == "transformer":
        options = {"dropout": 0.0, "batch_first": True}
        layers = [nn.TransformerEncoderLayer(256, 4, 1024, **options) for _ in range(3)]
        return nn.Sequential(*layers), torch.rand(4, 24, 256)
    width, depth, batch = {"deep": (512, 8, 96), "wide": (1792, 3, 24)}[name]
    layers = [
        layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())
    ]
    return nn.Sequential(*layers), torch.rand(batch, width)


def wrapped(name):
    """A network in DDP with buckets of 2 MiB, its optimizer and a batch."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model, batch = network(name)
    model = DistributedDataParallel(model, bucket_cap_mb=2)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3), batch


def count_buckets(rank, world_size):
    """Bytes of the all-reduces of a step of each network, in their order."""
    from course_lib.clusters.fake_ranks import fake_ranks

    sizes = {}
    for name in MODELS:
        with fake_ranks(2) as calls:
            model, _, batch = wrapped(name)
            for _ in range(3):  # buckets are made anew in the second
                calls.clear()
                model(batch).sum().backward()
            sizes[name] = [call.bytes for call in calls if call.name == "all_reduce"]
    return sizes


def time_steps(rank, world_size, *, rounds):
    """Seconds by network and part, of the lower quartile; and of each all-reduce."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    whole = torch.zeros(max(SIZES) // 4)
    jobs = {(name, part): job for name in MODELS for part, job in _jobs(name)}
    for size in SIZES * (world_size > 1):
        jobs["all_reduce", size] = lambda size=size: dist.all_reduce(whole[: size // 4])
    times = {name: [] for name in jobs}
    for _ in range(rounds + 2):
        for name, job in jobs.items():
            if name[1] != "backward" and name[1] != "optimizer":
                dist.barrier()
            start = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.quantiles(row[2:], n=4)[0] for name, row in times.items()}


def _jobs(name):
    """The parts of a step without DDP, and a step with it."""
    import torch

    model, batch = network(name)
    plain = torch.optim.SGD(model.parameters(), lr=1e-3)
    ddp, optimizer, _ = wrapped(name)
    loss = None

    def forward():
        nonlocal loss
        plain.zero_grad()
        loss = model(batch).square().mean()

    def step():
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()

    yield from zip(PARTS, (forward, lambda: loss.backward(), plain.step))
    yield "DDP", step


def slowest(ranks):
    """For each job the time of the rank that took longest."""
    return {name: max(rank[name] for rank in ranks) for name in ranks[0]}


def step_of(times, name, *, sizes, added=0.0, drag=0.0):
    """A network's step from its times without DDP."""
    parts = {part: times[name, part] for part in PARTS}
    parts["backward"] += added * sum(sizes)
    return TrainingStep(**parts, buckets=tuple(sizes), drag=drag)


def constants(times, sizes):
    """α and β of all-reduces; then what is fitted to one network on 1 and 2 ranks."""
    seconds = [times[2]["all_reduce", size] for size in SIZES]
    costs = fit(SIZES, seconds)
    plain = step_of(times[1], FITTED, sizes=sizes[FITTED]).compute
    added = max(0.0, times[1][FITTED, "DDP"] - plain) / sum(sizes[FITTED])
    wires = Network(gpus_per_node=2, inside=costs.link)

    def error(drag):
        step = step_of(times[2], FITTED, sizes=sizes[FITTED], added=added, drag=drag)
        return abs(predict(step, 2, wires).seconds - times[2][FITTED, "DDP"])

    drag = min((share / 100 for share in range(1001)), key=error)
    return costs, {"added": added, "drag": drag}, wires


def quickest(launches):
    """Of each time by ranks that of the quickest launch: others were disturbed."""
    return {
        n: {name: min(times[n][name] for times in launches) for name in launches[0][n]}
        for n in RANKS
    }


def run(rounds: int | None = None) -> str:
    """Measure and model all; a report in Markdown comes back."""
    rounds = rounds or ROUNDS
    (sizes,) = launch(count_buckets, world_size=1)
    launches = []
    for turn in range(rounds):
        report.say(f"scaling: round {turn + 1}")
        launches.append(
            {
                n: slowest(launch(time_steps, world_size=n, rounds=_REPEATS))
                for n in RANKS
            }
        )
    return describe(launches, sizes)


_REPEATS = 20


def describe(launches: list[dict], sizes: dict) -> str:
    """The report: what was fitted and predicted here, then the published curves."""
    times = quickest(launches)
    costs, fitted, wires = constants(times, sizes)
    numbers = 1e6 * costs.alpha, 1e9 * costs.beta, 1e9 * fitted["added"], fitted["drag"]
    rows = []
    for name in MODELS:
        for n in RANKS:
            step = step_of(times[n], name, sizes=sizes[name], **fitted)
            model = predict(step, n, wires).seconds
            plain = step_of(times[n], name, sizes=sizes[name]).compute
            measured = sorted(launch[n][name, "DDP"] for launch in launches)
            cells = text.size(sum(sizes[name])), str(len(sizes[name])), str(n)
            rows.append([_use(name), *cells, *_times(plain, measured, model)])
    counts = {"rounds": _REPEATS, "launches": len(launches)}
    parts = [
        _INTRODUCTION.format(fitted=FITTED, goal=GOAL, **counts),
        report.table(_CONSTANTS, [[f"{number:.3g}" for number in numbers]]),
        report.table(_HEAD, rows),
        published_scaling.report_of(),
        report.conditions(),
    ]
    return "\n".join(parts)


def _use(name):
    return f"{name} ({'fitted' if name == FITTED else 'predicted'})"


def _times(plain, measured, model):
    """Cells: milliseconds, and errors beside the launches."""
    errors = [model / time - 1 for time in measured]
    within = sum(abs(error) <= GOAL for error in errors)
    return [
        f"{1e3 * plain:.3g}",
        _spread([1e3 * time for time in measured]),
        f"{1e3 * model:.3g}",
        _spread([round(100 * error) for error in errors]),
        f"{within} of {len(errors)}",
    ]


def _spread(values):
    """The first, then median and largest of all: of times from quick to slow."""
    ends = values[0], statistics.median(values), values[-1]
    return "{:g} ({:g}, {:g})".format(*(float(f"{value:.3g}") for value in ends))
