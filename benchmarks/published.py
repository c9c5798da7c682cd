"""Modelled throughput and memory of known networks, beside what others have published.

`python -m benchmarks.published` fits the shares of course_lib/accelerators/gpus.csv
again, to the half of the figures that is there for it.
"""

import contextlib
import statistics
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from unittest import mock

from benchmarks import report

TABLE = Path(__file__).with_name("published.csv")
_INTRODUCTION = """# Virtual GPUs beside published figures

Training steps of known networks on one virtual GPU, at their real sizes, and what
others have measured. "At peaks" is how `cl.devices` models a GPU: every operator at the
rates of its data sheet, which a real one never reaches. "Achievable" is
`cl.devices(gpu=achievable("A100"))` (`course_lib/accelerators/hardware.py`): the same
rates times the shares in `gpus.csv`, five constants for all figures. They were fitted
to the first table alone; the second was held back until they were fixed, and the halves
before anything was modelled (`published.csv` says how). Errors are modelled ÷ published
− 1. All is modelled, from shapes alone (`modelled.py`): no number here depends on this
machine.

What the halves do not shield from: all figures had been modelled at peaks once before
the shares were fixed, which showed that MPT needed more memory than its GPU has; its
steps then took FSDP's copies in half precision. When the held half was first looked at,
its median error was 18 %, and 10 of 12 were within 25 %; what came later (autocast with
all of CUDA's lists, the bytes of operators on lists) was not made for these figures.
"""
_MEMORY = """\
## Memory

Parameters are counted. Activations are what the forward pass of one more layer leaves
for backward, with all in 16 bits and dropout, as Korthikanti et al. count them; `sdpa`
is F.scaled_dot_product_attention, whose scores are not kept (they count it as selective
recomputation, without one number per row and head). The measured figure is what
nvidia-smi showed less what it showed before the model; the cache of PyTorch's allocator
is in it, and not in ours.
"""
_LEFT_OUT = """\
## What the model leaves out

- Fused operators: torch.compile, TorchScript (BERT of 21.11 has it, and is faster than
  the same operators one by one), libraries of fused norms and losses.
- Sizes that fit a GPU's tiles badly (50,257 words), waves of blocks that end unevenly,
  clocks that fall under load: one share stands for all products of a generation.
- How a convolution is computed: layouts (NCHW is transposed for tensor cores and back),
  and algorithms such as Winograd's. ResNet-50 in TF32, which nothing was fitted to, is
  modelled too fast.
- Caches: each operator reads from and writes to memory, also what the last one wrote.
- Communication: FSDP's on one of eight GPUs counts as hidden. Loading of data, too.
- Scaling of losses, clipping of gradients, LAMB (AdamW stands for it).
- Memory: fragments and the cache of the allocator, workspaces of cuDNN and cuBLAS, and
  the 1 to 2 GB of CUDA itself.
"""
_SOURCES = """\
## Sources

- BERT: NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/README.md, "Training
  performance results", commit 729963d (DGX A100 80 GB; DGX-1 with V100 32 GB).
- ResNet-50: the same repository, .../ConvNets/resnet50v1.5/README.md (below
  PyTorch/Classification), "Training performance results"; batch sizes and NHWC in
  ConvNets/configs.yml.
- DLPerf: Oneflow-Inc/DLPerf, NVIDIADeepLearningExamples/PyTorch/BERT/README.md.
- GPT-2: A. Karpathy, "Let's reproduce GPT-2 (124M)", lecture of June 2024, whose
  chapters name the milliseconds; code and batch: karpathy/build-nanogpt, commits
  5265b20 (float32, TF32) and 177e4cd (bfloat16). The A100's 80 GB were not traced.
- MPT: mosaicml/llm-foundry, scripts/train/benchmarking/README.md, commit 5e85bd6.
- Parameters: pytorch/vision, torchvision/models/resnet.py; karpathy/llm.c, README.md;
  MPT as above. Measured memory: huggingface/transformers,
  docs/source/en/model_memory_anatomy.md (BERT-large, batch 4, 512 tokens, V100).
- V. Korthikanti et al., 2022, Reducing Activation Recomputation in Large Transformer
  Models: activations per layer, without and with selective recomputation.
"""


@dataclass(frozen=True)
class Figure:
    """One row of published.csv; `value` is samples or tokens per second."""

    use: str
    model: str
    gpu: str
    precision: str
    sequence: int
    batch: int
    steps: int
    value: float
    unit: str
    software: str
    source: str

    @property
    def samples(self) -> int:
        """What one batch counts in the unit of the figure."""
        return self.batch * (self.sequence if self.unit == "tokens/s" else 1)

    @property
    def shards(self) -> int:
        """On how many GPUs the optimizer's part is sharded."""
        return 8 if self.source == "MPT" else 1


def figures() -> list[Figure]:
    """All published figures, in the order of the table."""
    from course_lib.accelerators.hardware import read_table

    return [_figure(row) for row in read_table(TABLE)]


def _figure(row):
    numbers = {name: int(row[name]) for name in ("sequence", "batch", "steps")}
    return Figure(**{**row, **numbers, "value": float(row["value"])})


def modelled(figure: Figure, gpu) -> tuple[float, float]:
    """What a virtual GPU makes of a figure: its throughput, and its peak in bytes."""
    with _training(figure, gpu) as training:
        seconds = training.passes + training.step / (figure.steps * figure.shards)
        peak = training.peak - training.state * (1 - 1 / figure.shards)
    return figure.samples / seconds, peak


@contextlib.contextmanager
def _training(figure, gpu):
    from benchmarks.modelled import Training, shapes_only, tf32

    shape = figure.batch, figure.sequence
    with shapes_only(), tf32(figure.precision):
        yield Training(figure.model, shape, figure.precision, gpu=gpu).run()


def run(rounds: int | None = None) -> str:
    """Model all figures; a report in Markdown comes back."""
    import torch

    torch.set_num_threads(1)
    rows = {figure: _row(figure) for figure in figures()}
    parts = [_INTRODUCTION]
    for use, title in (
        ("fit", "## Throughput: the figures that fixed the shares"),
        ("held", "## Throughput: the figures that were held back"),
    ):
        own = {f: row for f, row in rows.items() if f.use == use}
        cells = [row[0] for row in own.values()]
        parts += [f"{title}\n", report.table(_HEAD, cells), _summary(own.values())]
    parts += [
        _fitted(),
        _MEMORY,
        report.table(_MEMORY_HEAD, _memory_rows()),
        _LEFT_OUT,
        _SOURCES,
    ]
    return "\n".join([*parts, f"{date.today()}, torch {torch.__version__}.\n"])


_HEAD = ["network", "GPU", "precision", "batch", "published", "at peaks | error"]
_HEAD += ["achievable | error", "memory, modelled"]


def _row(figure):
    from course_lib.accelerators.hardware import achievable, find_gpu

    report.say(f"published: {figure.model}, {figure.gpu}")
    gpu, errors, values = find_gpu(figure.gpu), [], []
    for sheet in (gpu, achievable(gpu)):
        value, peak = modelled(figure, sheet)
        values.append(value)
        errors.append(value / figure.value - 1)
    cells = [f"{_short(v)} | {e:+.0%}" for v, e in zip(values, errors, strict=True)]
    shape = f"{figure.batch} × {figure.sequence}"
    if figure.model == "ResNet-50":
        shape = f"{figure.batch}"
    published = f"{_short(figure.value)} {figure.unit}"
    names = [figure.model, figure.gpu, figure.precision, shape, published]
    names[4] += f" ({figure.software})"
    memory = f"{peak / 1e9:.1f} of {gpu.memory / 1e9:.0f} GB"
    return [*names, *cells, memory], errors


_FITTED = """\
Fitted again, to the first table as it is now: {}.
The shares in `gpus.csv` stay as they were fixed, before the second was looked at.
"""


def _fitted():
    shares = ", ".join(f"{name} {share:.2f}" for name, share in fit().items())
    return _FITTED.format(shares)


def _short(value):
    return f"{value:,.0f}" if value > 1000 else f"{value:.3g}"


def _summary(rows):
    lines = []
    for index, name in enumerate(("At peaks", "Achievable")):
        errors = [abs(errors[index]) for _, errors in rows]
        within = sum(error <= 0.25 for error in errors)
        lines.append(
            f"{name}: median error {statistics.median(errors):.0%}, largest"
            f" {max(errors):.0%}; {within} of {len(errors)} within 25 %."
        )
    return "\n".join(lines) + "\n"


_MEMORY_HEAD = ["what", "published", "modelled", "ratio"]
PARAMETERS = {
    ("ResNet-50", 224): 25_557_032,
    ("GPT-2", 1024): 124_439_808,
    ("MPT-125m", 2048): 125_311_488,
    ("MPT-760m", 2048): 760_470_528,
    ("MPT-1b", 2048): 1_315_950_592,
}
# width, heads, batch, sequence: GPT-2, one of 1,024, GPT-3
LAYERS = (768, 12, 8, 1024), (1024, 16, 4, 2048), (12288, 96, 1, 2048)
MEASURED = (14_949 - 1_343) * 2**20


def _memory_rows():
    from benchmarks.modelled import Training, layer, parameters, shapes_only, tf32
    from course_lib.accelerators.hardware import find_gpu

    rows = []
    for (name, sequence), count in PARAMETERS.items():
        modelled = parameters(name, sequence)
        rows.append(_compared(f"parameters of {name}", count, modelled))
    for sizes in LAYERS:
        width, heads, batch, sequence = sizes
        shown = f"a layer of {width:,}, {heads} heads, {batch} × {sequence:,}"
        for plain, counted in ((True, 34 + 5 * heads * sequence / width), (False, 34)):
            want = sequence * batch * width * counted
            how = "plain" if plain else "`sdpa`"
            modelled = layer(sizes, plain=plain)
            rows.append(_compared(f"{shown}, {how}", want, modelled, unit="MB"))
    with shapes_only(), tf32("float32"):
        gpu = find_gpu("V100")
        training = Training("BERT-large", (4, 512), "float32", gpu=gpu).run()
    rows.append(_compared("BERT-large, measured", MEASURED, training.peak, unit="MB"))
    return rows


def _compared(what, published, modelled, *, unit=""):
    scale = 1e6 if unit else 1
    cells = [f"{value / scale:,.0f} {unit}".strip() for value in (published, modelled)]
    return [what, *cells, f"{modelled / published:.3f}"]


def fit() -> dict[str, float]:
    """The shares that fit the first half best, in squares of logarithms of time."""
    from scipy.optimize import minimize

    known = [_costs(figure) for figure in figures() if figure.use == "fit"]
    names = ["bandwidth", "plain", *dict.fromkeys(figure.gpu for figure, _ in known)]

    def loss(shares):
        given = dict(zip(names, shares, strict=True))
        return sum(_miss(figure, costs, given) ** 2 for figure, costs in known)

    start, bounds = [0.8] * len(names), [(0.2, 1.0)] * len(names)
    best = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    return dict(zip(names, best.x.tolist(), strict=True))


def _costs(figure):
    """Seconds of arithmetic and of memory at peaks of every operator in a step."""
    import numpy as np

    from course_lib.accelerators.hardware import compute_time, find_gpu
    from course_lib.accelerators.vgpu import operators

    rows, gpu = [], find_gpu(figure.gpu)

    def note(gpu, *, flops=0, bytes=0, dtype="float32"):
        fast = gpu.flops.get(dtype, 0) > gpu.flops["float32"]
        arithmetic = compute_time(gpu, flops=flops, dtype=dtype)
        memory = compute_time(gpu, bytes=bytes)
        rows.append((arithmetic * weight, memory * weight, fast))
        return 0.0

    noted = mock.patch.object(operators, "compute_time", note)
    with _training(figure, gpu) as training, noted:
        weight = 1.0
        training.compute()
        weight = 1 / (figure.steps * figure.shards)
        training.optimizer.step()
    return figure, np.array(rows)


def _miss(figure, costs, shares):
    import numpy as np

    arithmetic, memory, fast = costs.T
    reached = np.where(fast, shares[figure.gpu], shares["plain"])
    seconds = np.maximum(arithmetic / reached, memory / shares["bandwidth"]).sum()
    return np.log(seconds * figure.value / figure.samples)


if __name__ == "__main__":
    print(fit())
