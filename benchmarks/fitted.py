"""`python -m benchmarks.fitted`: the constants of virtual GPUs, fitted again.

To half of the published and of the measured steps: shares of a data sheet's rates for
memory and, in each generation, for arithmetic without and with tensor cores; which part
of that convolutions reach; and what the host pays for an operator, for a change of type
and for an operator on a list. gpus.csv, virtual.py and operators.py have round ones.
"""

import contextlib
import json
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.optimize import minimize

from benchmarks import published
from benchmarks.gpu import compare
from course_lib.accelerators import hardware, virtual
from course_lib.accelerators.hardware import compute_time, find_gpu
from course_lib.accelerators.vgpu import copies, operators

_GENERATIONS = {"A100-80GB": "A100", "H200": "H100"}


def fit(steps: list) -> dict[str, float]:
    """The constants that fit best, in squares of logarithms of time."""
    start = {"memory": 0.6, "convolution": 0.5, "host, µs": 50.0}
    start |= {"change of type": 0.5, "list": 3.0}
    start |= dict.fromkeys(sorted(set(_shares(steps))), 0.7)
    names = list(start)
    options = {"maxiter": 8000, "maxfev": 12000, "xatol": 1e-4, "fatol": 1e-5}
    options["adaptive"] = True  # for many parameters

    def loss(values):
        if min(values) <= 0:
            return np.inf
        return error(steps, dict(zip(names, values, strict=True)))

    first = list(start.values())
    best = minimize(loss, first, method="Nelder-Mead", options=options)
    return dict(zip(names, best.x.tolist(), strict=True))


def error(steps: list, given: dict[str, float]) -> float:
    """The root of the mean square of log(modelled / measured) at these constants."""
    squares = [
        np.log(_seconds(parts, generation, given) / seconds) ** 2
        for generation, parts, seconds in steps
    ]
    return float(np.sqrt(np.mean(squares)))


def in_use() -> dict[str, float]:
    """The constants that virtual GPUs have."""
    given = {"host, µs": 1e6 * virtual.LAUNCH, "list": operators.LIST}
    given["change of type"] = operators.CHANGE_OF_TYPE
    for row in hardware.read_table(Path(hardware.__file__).with_name("gpus.csv")):
        if row["name"] in ("V100", "A100", "H100"):
            for kind in ("memory", "convolution"):
                given[kind] = float(row[f"{kind} share"])
            for kind in ("plain", "tensor"):
                given[f"{kind} {row['name']}"] = float(row[f"{kind} share"])
    return given


def _shares(steps):
    """The shares that some step depends on, by a hundredth of its time or more."""
    for generation, parts, seconds in steps:
        for kind, fast in (("plain", 0), ("tensor", 1)):
            spent = sum(w * costs[costs[:, 2] == fast, 0].sum() for costs, w in parts)
            if spent > seconds / 100:
                yield f"{kind} {generation}"


def _seconds(parts, generation, given):
    """Seconds of a step: the host launches in turn, the device works in order.

    A share that no step depends on is the mean of the other generations'.
    """
    total = 0.0
    for costs, weight in parts:
        arithmetic, memory, fast, convolves, launches = costs.T
        shares = [_share(kind, generation, given) for kind in ("plain", "tensor")]
        reached = np.where(fast, shares[1], shares[0])
        reached = np.where(convolves, reached * given["convolution"], reached)
        lasts = np.maximum(arithmetic / reached, memory / given["memory"])
        lasts = np.maximum(lasts, operators.SHORTEST)
        done = np.cumsum(lasts)
        weights = np.where(launches < 1, given["change of type"], 1.0)
        weights = np.where(launches > 1, given["list"], weights)
        launched = 1e-6 * given["host, µs"] * np.cumsum(weights)
        total += weight * (done[-1] + np.max(launched - (done - lasts)))
    return total


def _share(kind, generation, given):
    others = [value for name, value in given.items() if name.startswith(kind)]
    return given.get(f"{kind} {generation}", sum(others) / len(others))


def assumed(steps: list, given: dict[str, float]) -> dict[str, list[float]]:
    """Errors of all steps, had their generation the mean of the others' shares."""
    errors = {}
    for generation, parts, seconds in steps:
        others = {k: v for k, v in given.items() if not k.endswith(f" {generation}")}
        error = abs(_seconds(parts, generation, others) / seconds - 1)
        errors.setdefault(generation, []).append(error)
    return errors


def _published(use):
    for figure in published.figures():
        if figure.use == use:
            gpu = find_gpu(figure.gpu)
            with published.training(figure, gpu) as training:
                each = 1 / (figure.steps * figure.shards)
                parts = [(_costs(training.compute, gpu), 1.0)]
                parts.append((_costs(training.optimizer.step, gpu), each))
            yield _generation(gpu.name), parts, figure.samples / figure.value


def _measured(use):
    for path in sorted(compare.RECORDED.glob("*.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))["truth"]
        labels, gpu = compare.steps(truth), find_gpu(path.stem)
        for label in labels:
            if compare.half(label, labels) != use:
                continue
            with compare.stepping(label, gpu) as step:
                parts = [(_costs(step, gpu), 1.0)]
            yield _generation(gpu.name), parts, truth[label]["step"]["median"]


def _generation(name):
    return _GENERATIONS.get(name, name)


def _costs(work, gpu):
    """A row for each operator of `work()`.

    Seconds of arithmetic and of memory at peaks; whether tensor cores compute it, and
    whether it is a convolution; how many usual launches it is taken for.
    """
    rows, charge, kind = [], operators.charge, []

    def noted(traits, *args, **options):
        kind[:] = traits.convolves, traits.launches
        charge(traits, *args, **options)

    def note(_, *, flops=0, bytes=0, dtype="float32"):
        fast = gpu.flops.get(dtype, 0) > gpu.flops["float32"]
        arithmetic = compute_time(gpu, flops=flops, dtype=dtype)
        rows.append((arithmetic, compute_time(gpu, bytes=bytes), fast, *kind))
        return 0.0

    with contextlib.ExitStack() as stack:
        patches = (copies, "charge", noted), (operators, "charge", noted)
        for patch in (*patches, (operators, "compute_time", note)):
            stack.enter_context(mock.patch.object(*patch))
        work()
    return np.array(rows)


def main() -> None:
    """Print the best constants and those in use, each with its error."""
    steps = [*_published("fit"), *_measured("fit")]
    for title, given in (("best", fit(steps)), ("in use", in_use())):
        told = ", ".join(f"{name} {value:.3g}" for name, value in given.items())
        print(f"{title}: {told}; error {error(steps, given):.3f}")
    steps += [*_published("held"), *_measured("held")]
    found = assumed(steps, in_use())
    found["all"] = sum(found.values(), [])
    for name, errors in found.items():
        middle, nine = published.middle_and_nine_in_ten(errors)
        print(f"shares assumed, {name}: median {middle:.1%}, nine in ten {nine:.1%}")


if __name__ == "__main__":
    main()
