"""The model of a DDP step: fitted to one network here, and beside published curves."""

import statistics
import time
from pathlib import Path

from benchmarks import report
from course_lib import text
from course_lib.accelerators.alpha_beta import fit
from course_lib.accelerators.hardware import Link, read_table
from course_lib.clusters.scaling import (
    Network,
    ScalingCurve,
    TrainingStep,
    buckets,
    predict,
    weak,
)
from course_lib.launching.launcher import launch

TABLE = Path(__file__).with_name("published_scaling.csv")
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
        published(),
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


# --- published curves

_PUBLISHED = """\
## Beside published curves

Modelled and published efficiency on more GPUs, relative to the fewest that are
published. The constants of `published_scaling.csv` come from data sheets, from the
network's size and from the published rate on the fewest GPUs. They were committed
before the model was run on any of these rows, and none is fitted. (The published
figures had been seen by whoever wrote them down.) Beside it, the model with links
between nodes at half of their peak.
"""
_CURVES = ["network", "GPUs", "published", "modelled | error", "links at half | error"]
_AFTERWARDS = """\
Looked up after these errors were seen: BERT ran with apex's DistributedDataParallel and
`message_size=250000000`, which is more than all its gradients. They travel in one
bucket, after backward, and nothing overlaps. The same model with one bucket:
"""
_LEFT_OUT = """\
## What the model leaves out

- Ranks that are late: a step takes as long as the slowest one, and the more ranks there
  are, the later it is. Input: with 8 workers in place of 48, the same ResNet-50 reaches
  3.5 times the rate of one GPU on 8 (DLPerf, DataLoader).
- Congestion: links that other jobs, or rings that cross, share; switches with fewer
  links up than down. Rings within a node at their peak, whatever its topology.
- What communication takes from computation: multiprocessors and memory of a GPU.
- When gradients are ready: by bytes here. The gradients of ResNet-50 and VGG-16 are
  ready early, as their last layers are the largest.
- On the published side: numbers of one run each, and software that has changed since.

## Sources

- DLPerf: Oneflow-Inc/DLPerf, 2020, 4 nodes of 8 V100 16 GB, InfiniBand EDR, 100 Gb/s
  for each node (reports/dlperf_benchmark_test_report_v1.md). BERT-base:
  NVIDIADeepLearningExamples/PyTorch/BERT/README.md, commit 28a48de; "float16" has
  gradients in 16 bits, which was assumed. ResNet-50 v1.5:
  PyTorch/resnet50v1.5/README.md, commit 019e14a, DALI, 48 workers. Medians of five
  runs. Buckets of BERT:
  NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/run_pretraining.py.
- Goyal et al., 2017, Accurate, Large Minibatch SGD, arXiv:1706.02677, abstract: about
  90 % from 8 to 256 GPUs; P100 in nodes of 8, 50 Gbit Ethernet. 8 GPUs take 29 hours
  (NVIDIA Developer Blog, Facebook Trains ImageNet in 1 Hour, 2017) for 90 epochs of
  1,281,167 images: 1,104 a second. NVLink 1: four links of 20 GB/s (P100, data sheet).
- Horovod: horovod/horovod, docs/benchmarks.rst, commit 27743d0: 90 % and 68 % on 512
  Pascal GPUs in nodes of 4, RoCE, 25 Gbit/s (Sergeev, Del Balso, 2018,
  arXiv:1802.05799). One P100: TensorFlow, docs_src/performance/benchmarks.md, commit
  5984eff, batch 64. PCIe inside a node is assumed.
- MPT: mosaicml/llm-foundry, scripts/train/benchmarking/README.md, commit 061f2c7: A100
  40 GB, 1600 Gb/s for each node of 8, FSDP, 16 bits; tokens. Rows without gradient
  accumulation.
"""


def curve(row: dict, *, share=1.0, overlap=True) -> tuple[dict, ScalingCurve]:
    """Published efficiency by GPUs, relative to the fewest; and the model's curve.

    Links between nodes have a `share` of their peak. Without `overlap` all gradients
    are one bucket.
    """
    points = (point.split(":") for point in row["rates"].split())
    rates = {int(gpus): float(rate) for gpus, rate in points}
    fewest, whole = min(rates), float(row["bytes"]) * int(row["parameters"])
    per_gpu = {gpus: rate / gpus for gpus, rate in rates.items()}
    compute = float(row["batch"]) / per_gpu[fewest]
    parts = buckets(whole) if overlap else (whole,)
    step = TrainingStep(compute / 3, 2 * compute / 3, parts)
    if row["messages"]:
        count = int(row["messages"])  # of FSDP, which makes 1.5 all-reduces
        step = TrainingStep(0.0, compute, (1.5 * whole / count,) * count)
    model = weak(step, rates, _network(row, share))
    return {gpus: rate / per_gpu[fewest] for gpus, rate in per_gpu.items()}, model


def _network(row, share):
    inside, between = (
        Link(
            name,
            float(row[f"{name} GB/s"]) * 1e9,
            float(row[f"{name} µs"]) / 1e6,
            source=row["source"],
        )
        for name in ("inside", "between")
    )
    between = Link("between", between.bandwidth * share, between.latency, "")
    ports = int(row["ports"])
    return Network(int(row["gpus per node"]), inside, between, ports)


def relative(model: ScalingCurve) -> dict[int, float]:
    """Modelled efficiency relative to the fewest GPUs."""
    shares = model.efficiency
    return {gpus: share / shares[min(shares)] for gpus, share in shares.items()}


def published() -> str:
    """The part of the report that measures nothing here."""
    table = list(read_table(TABLE))
    plain, half = _errors(table), _errors(table, share=0.5)
    rows = [
        [*key, _share(plain[key][0]), *map(_cell, pair)]
        for key, pair in _pairs(plain, half)
    ]
    errors = [model / found - 1 for found, model in plain.values()]
    perfect = [1 / found - 1 for found, _ in plain.values()]
    summary = (
        f"Links at peaks: {_summary(errors)}. Whoever says 100 % to all:"
        f" {_summary(perfect)}.\n"
    )
    later = _errors([row for row in table if "BERT" in row["name"]], overlap=False)
    found = [[*key, _share(pair[0]), _cell(pair)] for key, pair in later.items()]
    parts = _PUBLISHED, report.table(_CURVES, rows), summary
    after = _AFTERWARDS, report.table(_CURVES[:4], found)
    return "\n".join([*parts, *after, _LEFT_OUT])


def _summary(errors):
    errors = list(map(abs, errors))
    within = sum(error <= GOAL for error in errors)
    ends = f"median error {statistics.median(errors):.0%}, largest {max(errors):.0%}"
    return f"{ends}; {within} of {len(errors)} within {GOAL:.0%}"


def _errors(table, **options):
    """Published and modelled efficiency by curve and GPUs, but for the fewest."""
    pairs = {}
    for row in table:
        shares, model = curve(row, **options)
        modelled = relative(model)
        for gpus in list(shares)[1:]:
            key = f"{row['name']} ({row['source']})", f"{gpus:,}"
            pairs[key] = shares[gpus], modelled[gpus]
    return pairs


def _pairs(*tables):
    return [(key, [table[key] for table in tables]) for key in tables[0]]


def _share(value):
    return f"{value:.0%}"


def _cell(pair):
    published, modelled = pair
    return f"{modelled:.0%} | {modelled / published - 1:+.0%}"
