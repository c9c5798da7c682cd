"""Exercise 1.1, decided: a model split over two devices."""

import random
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e1_1 import observe
from course_lib.exercises.values import shown
from course_lib.text import listed, size

_SHAPES = ((8, 256, 64), (12, 192, 50))  # Linear layers, width, samples
_SPARE = 0.05  # of a layer, or of the bytes of an activation


def cases(seed: int) -> Iterator[Case]:
    """Models of two depths and widths; expected are the output and x's gradient."""
    for layers, width, samples in _SHAPES if not seed else _drawn(seed):
        with baseline.seeded(layers + seed):
            parts = [[nn.Linear(width, width), nn.ReLU()] for _ in range(layers)]
            model = nn.Sequential(*(module for part in parts for module in part))
            x = torch.rand(samples, width)
        mine = x.clone().requires_grad_()
        output = model(mine)
        (gradient,) = torch.autograd.grad(output.square().sum(), mine)
        yield Case({"model": model, "x": x}, expected=(output.detach(), gradient))


def _drawn(seed):
    numbers = random.Random(seed)
    for layers in numbers.sample((2, 6, 10, 14), 2):
        yield layers, numbers.randrange(128, 256), numbers.randrange(20, 60)


def judge(case: Case, seen) -> str:
    """Look at what either device holds and computes, what crosses, then at values."""
    [rank] = seen
    model, x = case.given["model"], case.given["x"]
    where = f"model of {len(model)} modules"
    _refuse_other(rank, where)
    _judge_layers(rank, model, x, where=where)
    _judge_travel(rank, model, x, where=where)
    _judge_values(rank, case, where)
    return f"{size(x.nbytes)} of {len(model)} modules"


def _refuse_other(rank, where):
    if "output" not in rank:
        raise Wrong(
            f"{where}: split returned {shown(rank['returned'])}, expected a function or"
            " module that takes x",
            "Return something that can be called with x: a small function inside of"
            " split, or an nn.Module. It knows both parts.",
        )
    if not torch.is_tensor(rank["output"]):
        raise Wrong(
            f"{where}: forward returned {shown(rank['output'])}, expected the output as"
            " a tensor",
            "Return what the second part computes, and nothing else.",
        )


def _judge_layers(rank, model, x, *, where):
    """Compare what lies on either device, and what is computed there."""
    half = len(model) // 4
    nbytes = sum(p.nbytes for p in model[0].parameters())
    held = [number / nbytes for number in rank["held"]]
    if not all(abs(count - half) < _SPARE for count in held):
        raise Wrong(
            f"{where}: Linear layers lie on {_by_device(rank['names'], held)}, expected"
            f" {half} on each",
            f"The first half of this model are {2 * half} modules ({half} Linear,"
            f" {half} ReLU), of others more or fewer: compute the cut from len(model)."
            " Move both parts in split, each to its device alone: what is moved inside"
            " of forward, or left on the CPU, travels with every batch.",
            clue={"held": [count / half for count in held]}
            | {"crossings": len(rank["crossings"])},
        )
    flops = {
        name: number / (2 * x.numel() * x.shape[1])
        for name, number in rank["flops"].items()
    }
    names = sorted({*rank["names"], *flops})
    counts = [flops.get(name, 0) for name in names]
    if not all(
        abs(count - half * (name != "cpu")) < _SPARE
        for name, count in zip(names, counts)
    ):
        raise Wrong(
            f"{where}: a batch runs through Linear layers on"
            f" {_by_device(names, counts)}, expected {half} on each device",
            "Each layer takes part once, in order, on the device where it lies: none"
            " is left out, none runs twice or on the CPU.",
            clue={"computed": counts},
        )


def _by_device(names, counts):
    parts = zip(names, counts)
    return listed([f"{name} ({count:.3g})" for name, count in parts])


def _judge_travel(rank, model, x, *, where):
    one, crossings = rank["names"][1], rank["crossings"]
    clue = {"crossings": [count / x.nbytes for count in crossings]}
    clue |= {"first": rank["crossed"], "over_cpu": rank["over_cpu"] / x.nbytes}
    clue["stays"] = rank["places"] == [one]
    if not clue["stays"]:
        raise Wrong(
            f"{where}: the output lies on {' and '.join(rank['places'])}, expected"
            f" {one}",
            f"Run the second part where it lies, on {one}, and leave its output there:"
            " labels and loss go there.",
            clue=clue,
        )
    if clue["over_cpu"] > _SPARE:
        raise Wrong(
            f"{where}: forward moved {size(rank['over_cpu'])} to or from the CPU,"
            " expected nothing",
            "Go straight from one device to the other: x1.to(devices[1]).",
            clue=clue,
        )
    if len(crossings) != 1 or abs(clue["crossings"][0] - 1) > _SPARE:
        verb = "copy crosses" if len(crossings) == 1 else "copies cross"
        raise Wrong(
            f"{where}: {len(crossings)} {verb}, {size(sum(crossings))} in all, expected"
            f" 1 of {size(x.nbytes)}",
            f"{_what_crosses(rank, model, x)} Neighbours on one device need none: run"
            " the whole first part, move its output once and as it is, run the whole"
            " second part.",
            clue=clue,
        )


def _what_crosses(rank, model, x):
    """The first copy between the devices and what follows, as parts of the model."""
    activations = [x]
    with torch.no_grad():
        for module in model:
            activations.append(module(activations[-1]))
        first = [k for k, h in enumerate(activations) if not _apart(rank["crossed"], h)]
        if not first:
            found = shown(rank["crossed"])
            return f"What crosses first is {found}, no activation of the model."
        if first[0] == 0:
            return "What crosses first is x: the first part belongs where x is."
        h, output = activations[first[0]], rank["output"]
        after = [k for k in range(len(model)) if not _apart(output, model[k:](h))]
    what = f"model[{after[-1]}:]" if after else "no model[k:]"
    return (
        f"What crosses first is model[:{first[0]}](x); {what} makes the output of it."
    )


def _judge_values(rank, case, where):
    output, gradient = case.expected
    apart = _apart(rank["output"], output)
    if apart:
        raise Wrong(
            f"{where}: the output is {apart} that of the whole model",
            f"{_what_crosses(rank, **case.given)} Each part is all of its modules, in"
            " order, with the weights that were given.",
            clue={"output": rank["output"]},
        )
    apart = _apart(rank["gradient"], gradient)
    if apart:
        raise Wrong(
            f"{where}: the output is right, but backward gives x a gradient that is"
            f" {apart} that of the whole model",
            "The copy must stay part of the graph: .to() does. detach(), .data and"
            " no_grad cut it. A hook, or a backward in forward, adds to it.",
            clue={"gradient": rank["gradient"]},
        )


def _apart(found, expected):
    """By how much a tensor differs from another one in words, "" if it does not."""
    if found is None or found.shape != expected.shape or found.is_complex():
        return "missing, or of another kind than"
    found, expected = found.double(), expected.double()
    if not found.isfinite().all():
        return "no number (nan), unlike"
    largest = expected.abs().max()
    off = ((found - expected).abs().max() / largest).item()
    if off <= CLOSE:
        return ""
    times = ((found * expected).sum() / expected.square().sum()).item()
    if (found - times * expected).abs().max() <= CLOSE * largest:
        return f"{times:.3g} times"
    return f"{100 * off:.3g}\N{NO-BREAK SPACE}% off from"


EXERCISE = Exercise(
    "1.1",
    observe,
    cases,
    judge,
    proof="half of each model on either device, one activation crosses: {}; output and"
    " gradient as of the whole",
)
