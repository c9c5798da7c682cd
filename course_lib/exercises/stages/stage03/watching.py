"""What an answer does on several devices: who computes which rows, what travels."""

from collections import Counter
from functools import partial

import torch

from course_lib.exercises.attempt import Wrong
from course_lib.text import listed


def draw(attempt, trace) -> None:
    """Let the notebook show above the outcome what travelled, if anything did."""
    if trace.transfers:
        attempt.picture = partial(_transfers, trace)


def _transfers(trace):
    # a rank, which imports this too, needs no matplotlib
    from course_lib.plots.transfers import plot_transfers

    return plot_transfers(trace)


def count_rows(module: torch.nn.Module) -> Counter:
    """Rows that go through a module and its copies from now on, by device name."""
    rows = Counter()

    # a plain function: a deep copy of the module keeps it, and so notes here, too
    def note(_, inputs):
        rows[str(inputs[0].device)] += len(inputs[0])

    module.register_forward_pre_hook(note)
    return rows


def through_cpu(transfers) -> bool:
    """True if more than a few numbers go to the CPU or come from it."""
    return any(
        "cpu" in (one.source, one.target) and one.bytes > 64 for one in transfers
    )


def shares(count: int, parts: int) -> list[int]:
    """How many rows each part has that `torch.chunk` makes; 0 where none is left."""
    sizes = [len(part) for part in torch.arange(count).chunk(parts)]
    return sizes + [0] * (parts - len(sizes))


def refuse_lazy(rows: dict, names: list[str], *, trace, batch: int, steps=1) -> None:
    """Refuse an answer that leaves a device idle, or gives it more than its share."""
    most = shares(batch, len(names))[0] * steps
    if not rows:  # the layers were written out: the trace alone can tell
        rows = {name: trace.time(name, "compute") and most for name in names}
    idle = [name for name in names if not rows.get(name)]
    if len(idle) == len(names) - 1:
        raise Wrong(
            f"{(set(names) - set(idle)).pop()} computes everything;"
            f" {listed(idle)} nothing",
            "The numbers are right, but one device does all the work. Each device needs"
            " a copy of the model and its own chunk of the batch.",
        )
    if idle:
        raise Wrong(
            f"nothing is computed on {listed(idle)}, expected work on all"
            f" {len(names)} devices",
            "Cut the batch into as many chunks as there are devices: len(devices).",
        )
    worst = max(names, key=rows.get)
    if rows[worst] > 1.3 * most + 1:
        raise Wrong(
            f"{worst} put {rows[worst]:,} samples through the model, expected {most:,}",
            "A device computes its own chunk only, and only once. Which tensor does the"
            " replica get?",
        )
