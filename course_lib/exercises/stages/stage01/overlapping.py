"""Exercise 1.3: micro-batches that keep two devices busy."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import CLOSE, noted
from course_lib.exercises.device_runs import on_devices, to_cpu, watch
from course_lib.exercises.stages.stage01.overlapping_mistakes import (
    relative_gap,
    scale_of,
    why_apart,
    why_failed,
    why_slow,
)
from course_lib.text import size

FACTOR = 1.25
_WIDTH, _SAMPLES = 1024, 2048


def check_overlap(attempt: Attempt) -> str:
    """Compare gradients with those of the whole batch, then the two times."""
    (seen,) = attempt(_overlap, world_size=1, why=why_failed)
    attempt.draw(seen["run"].trace)
    _judge_values(seen)
    run, plain = seen["run"], seen["naive"]
    crossed, least = sum(run.crossings()), sum(plain.crossings())
    if crossed > 1.2 * least:
        raise Wrong(
            f"{size(crossed)} cross between the devices, expected {size(least)}",
            "Only the activation between the parts crosses, and its gradient comes"
            " back. x stays on devices[0], labels on devices[1].",
        )
    gain = plain.seconds / run.seconds
    if gain < FACTOR:
        raise Wrong(
            f"{1e3 * run.seconds:.2f} ms, the whole batch takes"
            f" {1e3 * plain.seconds:.2f} ms: {gain:.2f} times as fast, expected at"
            f" least {FACTOR}",
            why_slow(run, seen["names"]),
        )
    word = run.trace.source.partition(":")[0]
    return (
        f"{gain:.2f} times as fast as the whole batch at once ({word}), same gradients"
    )


def network(width: int = _WIDTH) -> tuple[nn.Sequential, nn.Sequential]:
    """Two parts of equal work, f32[n, width] to f32[n, 10]."""
    torch.manual_seed(0)
    wide = ([nn.Linear(width, width), nn.ReLU()] for _ in range(4))
    layers = [module for pair in wide for module in pair]
    return nn.Sequential(*layers[:4]), nn.Sequential(*layers[4:], nn.Linear(width, 10))


def _overlap(_rank, _world_size, answer):
    devs = on_devices(2, gpu="T4", link="PCIe3")
    parts = [part.to(device) for part, device in zip(network(), devs)]
    x = torch.rand(_SAMPLES, _WIDTH).to(devs[0])
    labels = (torch.arange(_SAMPLES) % 10).to(devs[1])
    parameters = [p for part in parts for p in part.parameters()]

    def naive(pick=slice(None), scale=1.0):
        """The gradient of the mean loss of some samples, times `scale`."""
        predicted = parts[1](parts[0](x[pick]).to(devs[1]))
        (cross_entropy(predicted, labels[pick]) * scale).backward()

    def gradient(call, *args):
        for parameter in parameters:
            parameter.grad = None
        call(*args)

    def gradients():
        return [to_cpu(parameter.grad) for parameter in parameters]

    def measured(call, *args):
        return watch(lambda: gradient(call, *args), devs, warm=2), gradients()

    plain, expected = _whole_batch(lambda: measured(naive))
    with noted(torch.autograd, "backward") as calls:
        run, found = measured(answer, *parts, devs, x, labels)
    seen = {"naive": plain, "run": run, "names": [str(device) for device in devs]}
    seen |= {"gap": relative_gap(found, expected), "backward": len(calls), "hint": ""}
    if seen["gap"] > CLOSE:
        seen["lacking"] = any(one is None for one in found)
        seen["scale"] = scale_of(found, expected)
        again = gradient, naive, gradients
        seen["hint"] = why_apart(found, expected, seen=seen, parts=again)
    return seen


def _whole_batch(measured):
    """What the answer is compared with, the same each time."""
    return measured()


def _judge_values(seen):
    if seen["gap"] == float("inf"):
        what = "no gradient" if seen["lacking"] else "a gradient of nan"
        raise Wrong(f"some parameters have {what}", seen["hint"])
    if seen["gap"] <= CLOSE:
        return
    if seen["scale"] is not None:
        found = f"are {seen['scale']:,.4g} times those of the whole batch"
    else:
        percent = 100 * seen["gap"]
        share = f"{percent:,.0f}" if percent >= 10 else f"{percent:.2g}"
        found = (
            f"differ from those of the whole batch by up to {share} % of the largest"
        )
    raise Wrong(f"the gradients {found}", seen["hint"])
