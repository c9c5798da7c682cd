"""Published training speeds on many GPUs, beside the model of a step."""

import statistics
from pathlib import Path

from benchmarks import report
from course_lib.accelerators.hardware import Link, read_table
from course_lib.clusters.scaling import (
    Network,
    ScalingCurve,
    TrainingStep,
    buckets,
    weak,
)

TABLE = Path(__file__).with_name("published_scaling.csv")
GOAL = 0.15  # of the published efficiency
_PUBLISHED = """\
## Beside published curves

Modelled and published efficiency on more GPUs, relative to the fewest that are
published. The constants of `published_scaling.csv` come from data sheets, from the
network's size and from the published rate on the fewest GPUs. They were committed
before the model was run on any of these rows, and none is fitted. (The published
figures had been seen by whoever wrote them down.) Between nodes go rings; trees, which
NCCL has since 2019, would change one row, by 0.2 points. Beside it, the model with
links between nodes at half of their peak.
"""
_CURVES = ["network", "GPUs", "published", "modelled | error", "links at half | error"]
_AFTERWARDS = """\
Looked up after these errors were seen: BERT ran with apex's DistributedDataParallel and
`message_size=250000000`, which is more than all its gradients. They travel in one
bucket, after backward, and nothing overlaps. The same model with one bucket:
"""
_READY = """\
VGG-16 is near for a wrong reason. Its last three layers hold {late:.0%} of the
gradients, and are through when {done:.1%} of backward is done; the model lets gradients
come as evenly as bytes, and cuts them anywhere. With buckets that end between layers,
each ready when its layers are (by their operations; Simonyan, Zisserman, 2015,
arXiv:1409.1556, table 1, D), more is hidden, and the error has the sign of the others:
"""
_LEFT_OUT = """\
## What the model leaves out

- Ranks that are late: a step takes as long as the slowest one, and the more ranks there
  are, the later it is. Input: with 8 workers in place of 48, the same ResNet-50 reaches
  3.5 times the rate of one GPU on 8 (DLPerf, DataLoader).
- Congestion: links that other jobs, or rings that cross, share; switches with fewer
  links up than down. Rings within a node at their peak, whatever its topology.
- What communication takes from computation: multiprocessors and memory of a GPU.
- When gradients are ready: by bytes here, but for the last table. Those of ResNet-50
  are ready early, too, as its last layers are the largest.
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


def curve(
    row: dict, *, share=1.0, overlap=True, layers=False
) -> tuple[dict, ScalingCurve]:
    """Published efficiency by GPUs, relative to the fewest; and the model's curve.

    Links between nodes have a `share` of their peak. Without `overlap` all gradients
    are one bucket. With `layers` VGG-16 has buckets of whole layers, ready with them.
    """
    points = (point.split(":") for point in row["rates"].split())
    rates = {int(gpus): float(rate) for gpus, rate in points}
    fewest, whole = min(rates), float(row["bytes"]) * int(row["parameters"])
    per_gpu = {gpus: rate / gpus for gpus, rate in rates.items()}
    compute = float(row["batch"]) / per_gpu[fewest]
    parts = buckets(whole) if overlap else (whole,)
    ready = ()
    if layers:
        parts, ready = map(tuple, buckets_of_vgg())
    step = TrainingStep(compute / 3, 2 * compute / 3, parts, ready=ready)
    if row["messages"]:
        count = int(row["messages"])  # of FSDP, which makes 1.5 all-reduces
        step = TrainingStep(0.0, compute, (1.5 * whole / count,) * count)
    model = weak(step, rates, _network(row, share))
    return {gpus: rate / per_gpu[fewest] for gpus, rate in per_gpu.items()}, model


# of VGG-16: channels before and behind each convolution of 3 × 3, width of the image
_CONVOLUTIONS = (
    *((3, 64, 224), (64, 64, 224), (64, 128, 112), (128, 128, 112), (128, 256, 56)),
    *((256, 256, 56), (256, 256, 56), (256, 512, 28), (512, 512, 28), (512, 512, 28)),
    *((512, 512, 14),) * 3,
)
_LINEAR = ((25_088, 4096), (4096, 4096), (4096, 1000))


def _layers_of_vgg():
    """Parameters and operations of each layer, the last one first."""
    rows = [
        (9 * before * behind + behind, 9 * before * behind * width**2)
        for before, behind, width in _CONVOLUTIONS
    ]
    rows += [(before * behind + behind, before * behind) for before, behind in _LINEAR]
    return rows[::-1]


def buckets_of_vgg(cap: float = 25 * 2**20) -> tuple[list[int], list[float]]:
    """Bytes of the buckets of VGG-16 in float32, and shares of backward at their ends.

    As in DDP a bucket ends between two layers, when it is full; the first is full at 1
    MiB.
    """
    layers = _layers_of_vgg()
    whole = sum(operations for _, operations in layers)
    sizes, ready, size, done = [], [], 0, 0
    for parameters, operations in layers:
        size, done = size + 4 * parameters, done + operations
        if size >= (cap if sizes else 2**20) or done == whole:
            sizes.append(size)
            ready.append(done / whole)
            size = 0
    return sizes, ready


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
    per_node = int(row["gpus per node"])
    return Network(per_node, inside, between, ports, algorithm="chunked ring")


def relative(model: ScalingCurve) -> dict[int, float]:
    """Modelled efficiency relative to the fewest GPUs."""
    shares = model.efficiency
    return {gpus: share / shares[min(shares)] for gpus, share in shares.items()}


def report_of() -> str:
    """The part of the report that measures nothing here."""
    table = list(read_table(TABLE))
    plain, half = _errors(table), _errors(table, share=0.5)
    errors = [model / found - 1 for found, model in plain.values()]
    perfect = [1 / found - 1 for found, _ in plain.values()]
    summary = (
        f"Links at peaks: {_summary(errors)}. Whoever says 100 % to all:"
        f" {_summary(perfect)}.\n"
    )
    bert = _errors([row for row in table if "BERT" in row["name"]], overlap=False)
    vgg = [row for row in table if "VGG" in row["name"]]
    own = [_errors(vgg, layers=True, share=share) for share in (1.0, 0.5)]
    sizes, done = buckets_of_vgg()
    ready = _READY.format(late=sum(sizes[:3]) / sum(sizes), done=done[2])
    parts = _PUBLISHED, _table(plain, half), summary
    after = _AFTERWARDS, _table(bert), ready, _table(*own)
    return "\n".join([*parts, *after, _LEFT_OUT])


def _table(*tables):
    rows = [
        [*key, _share(pairs[0][0]), *map(_cell, pairs)]
        for key, pairs in _pairs(*tables)
    ]
    return report.table(_CURVES[: 3 + len(tables)], rows)


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
