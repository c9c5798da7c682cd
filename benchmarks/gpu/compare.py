"""`python -m benchmarks.gpu.compare`: virtual GPUs against the recorded real ones.

Writes benchmarks/gpu.md: steps of known networks as they were measured, and as virtual
GPUs model them at the peaks of the data sheet and at the rates that training reaches.
"""

import json
import re
import statistics
from pathlib import Path

from benchmarks.gpu import truth
from benchmarks.modelled import shapes_only
from course_lib.accelerators.hardware import achievable, find_gpu
from course_lib.accelerators.selection import devices
from course_lib.accelerators.virtual import machine

RECORDED = Path(__file__).with_name("recorded")
_LABEL = re.compile(r"(\S+) (\d+)x(\d+) (\S+)( recomputed)?")


def main() -> None:
    """Model each recorded step, and write the page."""
    pages = [page(path) for path in sorted(RECORDED.glob("*.json"))]
    text = "\n".join([(Path(__file__).with_name("head.md")).read_text(), *pages])
    Path(__file__).parents[1].joinpath("gpu.md").write_text(text, encoding="utf-8")
    print(text)


def page(path: Path) -> str:
    """The table of one GPU."""
    found = json.loads(path.read_text(encoding="utf-8"))
    rows, off = [], []
    for label, seen in found["truth"].items():
        match = _LABEL.fullmatch(label)
        if not match or "step" not in seen:
            continue
        name, batch, length, precision, again = match.groups()
        what = name, (int(batch), int(length)), (precision, bool(again))
        measured = 1e3 * seen["step"]["median"]
        held = seen["peak"]["allocated"] / 1e9
        peak, _ = modelled(*what, gpu=find_gpu(path.stem))
        reached, bytes_ = modelled(*what, gpu=achievable(path.stem))
        off.append((peak / measured - 1, reached / measured - 1, bytes_ / held - 1))
        numbers = f"{measured:.1f} | {peak:.1f} | {reached:.1f} | {off[-1][1]:+.0%}"
        memory = f"{held:.2f} | {bytes_:.2f} | {off[-1][2]:+.1%}"
        rows.append(f"| {label} | {numbers} | {memory} |")
    medians = [statistics.median(map(abs, column)) for column in zip(*off)]
    machine_ = found["machine"]
    driver = re.search(r"Driver Version: (\S+)", machine_["nvidia-smi"])[1]
    return "\n".join(
        [
            f"## {path.stem}: {found['date']}, driver {driver}, torch"
            f" {machine_['torch'][0]}",
            "",
            "| step | measured, ms | at peaks | at reached rates | off | measured peak,"
            " GB | counted | off |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
            *rows,
            "",
            f"Median error: {medians[0]:.0%} at peaks, {medians[1]:.0%} at reached"
            f" rates, {medians[2]:.1%} of bytes.",
            "",
        ]
    )


def modelled(name, shape, how, *, gpu) -> tuple[float, float]:
    """Milliseconds of the third step on a virtual GPU, and GB at its peak."""
    with shapes_only():
        [device] = devices(1, gpu=gpu, memory="900 TB", quiet=True)
        step, _ = truth.training(name, shape, (*how, device))
        step()
        step()
        start = machine.clock.wait()
        step()
        taken = machine.clock.wait() - start
        peak = machine.place(0).account.peak
    return 1e3 * taken, peak / 1e9


if __name__ == "__main__":
    main()
