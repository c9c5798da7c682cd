"""`python -m benchmarks.gpu.compare`: virtual GPUs against the recorded real ones.

Writes benchmarks/gpu.md: steps of known networks as they were measured, and as virtual
GPUs model them at the peaks of the data sheet and at the rates that training reaches.
"""

import contextlib
import functools
import json
import re
import statistics
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from benchmarks.gpu import truth
from benchmarks.modelled import shapes_only
from course_lib.accelerators import gpt_memory
from course_lib.accelerators.hardware import achievable, find_gpu
from course_lib.accelerators.selection import devices
from course_lib.accelerators.virtual import machine

RECORDED = Path(__file__).with_name("recorded")
PAGE = Path(__file__).parents[1] / "gpu.md"
_LABEL = re.compile(r"(\S+) (\d+)x(\d+) (\S+)( recomputed)?")
_SMALL = re.compile(r"(wide|convolutions) ?(\d*), batch (\d+)")


def main() -> None:
    """Model each recorded step, and write the page."""
    pages = [page(path) for path in sorted(RECORDED.glob("*.json"))]
    text = "\n".join([(Path(__file__).with_name("head.md")).read_text(), *pages])
    PAGE.write_text(text, encoding="utf-8")
    print(text)


def page(path: Path) -> str:
    """The table of one GPU."""
    found = json.loads(path.read_text(encoding="utf-8"))
    labels = steps(found["truth"])
    all_seen = found["truth"] | found["later"]
    rows, off = [], {"fit": [], "held": [], "later": []}
    for label in [*labels, *steps(found["later"])]:
        use, seen = half(label, labels), all_seen[label]
        measured = 1e3 * seen["step"]["median"]
        peak, _ = modelled(label, gpu=find_gpu(path.stem))
        reached, bytes_ = modelled(label, gpu=achievable(path.stem))
        off[use].append((peak / measured - 1, reached / measured - 1))
        memory = "| "
        if "parameters" in seen:  # the small networks had others beside them
            held = seen["peak"]["allocated"] / 1e9
            memory = f"{held:.2f} | {bytes_:.2f} | {bytes_ / held - 1:+.1%}"
        numbers = (
            f"{measured:.1f} | {peak:.1f} | {reached:.1f} | {off[use][-1][1]:+.0%}"
        )
        rows.append(f"| {label} | {use} | {numbers} | {memory} |")
    machine_ = found["machine"]
    driver = re.search(r"Driver Version: (\S+)", machine_["nvidia-smi"])[1]
    title = f"## {path.stem}: {found['date']}, driver {driver}, torch"
    small = small_gpt(found.get("small GPT", {}))
    return "\n".join(
        [f"{title} {machine_['torch'][0]}", "", *_HEAD, *rows, _median(off), *small]
    )


def small_gpt(found: dict) -> list[str]:
    """The table of what the GPT of 10.8 million parameters held in a step."""
    rows = []
    for label, seen in found.items():
        parts = _SMALL_GPT.fullmatch(label)
        if parts is None:
            continue
        numbers, again, efficient = parts.groups()
        held = seen["value"]
        kept = (held["after forward"] - held["rest"]) / 1e6
        bits, recompute = (
            32 if numbers in ("fp32", "tf32") else 16,
            6 * (again == "True"),
        )
        plain = efficient == "False"
        counted = gpt_memory.model(
            *(32, 256, 384, 6, 6), bits=bits, plain=plain, recompute=recompute
        )
        row = [numbers, "each block" if recompute else "–"]
        row += ["kept" if plain else "–", f"{held['ms']:.1f}"]
        row += [f"{held['peak'] / 1e6:,.0f}"]
        row += [f"{kept:,.0f}", f"{counted / 1e6:,.0f}"]
        row += [f"{counted / 1e6 / kept - 1:+.1%}"]
        rows.append(f"| {' | '.join(row)} |")
    return [*_SMALL_HEAD, *rows, ""] if rows else []


_SMALL_GPT = re.compile(r"gpt (fp32|tf32|bf16|fp16) recompute=(\w+) efficient=(\w+)")
_SMALL_HEAD = [
    "### A small GPT: what it holds",
    "",
    "6 blocks of width 384 with 6 heads, 96 words, tied weights, 10.8 million"
    " parameters, AdamW, 32 windows of 256 tokens. Peak of a step, and what forward"
    " leaves for backward: measured, and by the arithmetic of lesson 02b, in which"
    " every block is the layer of exercise 2.7"
    " (`course_lib/accelerators/gpt_memory.py`). bf16 and fp16 are autocast. The times"
    " are one median each, of short steps.",
    "",
    "| numbers | recomputed | scores | step, ms | peak, MB | forward leaves, MB |"
    " by arithmetic | off |",
    "|---|---|---|--:|--:|--:|--:|--:|",
]


_HEAD = [
    "| step | part | measured, ms | at peaks | at reached rates | off | measured peak,"
    " GB | counted | off |",
    "|---|---|--:|--:|--:|--:|--:|--:|--:|",
]


def _median(off):
    lines = [""]
    for use, errors in off.items():
        peak, reached = (statistics.median(map(abs, one)) for one in zip(*errors))
        lines.append(
            f"Median error, {use}: {peak:.0%} at peaks, {reached:.0%} at reached rates."
        )
    return "\n\n".join(lines) + "\n"


def steps(truth: dict) -> list[str]:
    """The labels of all steps that were measured, in the order of the file."""
    return [k for k, seen in truth.items() if "step" in seen and _known(k)]


def half(label: str, labels: list[str]) -> str:
    """Which part a step belongs to: the 1st, 3rd, 5th … fixed the constants.

    Those that are not among `labels` were timed later.
    """
    if label not in labels:
        return "later"
    return ("fit", "held")[labels.index(label) % 2]


def _known(label):
    return _LABEL.fullmatch(label) or _SMALL.fullmatch(label)


def modelled(label: str, *, gpu) -> tuple[float, float]:
    """Milliseconds of the third step on a virtual GPU, and GB at its peak."""
    with stepping(label, gpu) as step:
        start = machine.clock.wait()
        step()
        taken = machine.clock.wait() - start
        peak = machine.place(0).account.peak
    return 1e3 * taken, peak / 1e9


@contextlib.contextmanager
def stepping(label: str, gpu):
    """A training step on a virtual GPU, after two of them."""
    with shapes_only():
        [device] = devices(1, gpu=gpu, memory="900 TB", quiet=True)
        step = _step(label, device)
        step()
        step()
        yield step


def _step(label, device):
    small = _SMALL.fullmatch(label)
    if not small:
        name, batch, length, precision, again = _LABEL.fullmatch(label).groups()
        how = precision, bool(again), device
        return truth.training(name, (int(batch), int(length)), how)[0]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = True
    name, width, batch = small.groups()
    make, shape = truth.convolutions, (1, 8, 8)
    if name == "wide":
        make, shape = functools.partial(truth.wide, int(width)), (64,)
    model, batch = make().to(device), int(batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.rand(batch, *shape, device=device)
    y = torch.randint(10, (batch,), device=device)

    def step():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
