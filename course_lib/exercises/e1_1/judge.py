"""Exercise 1.1, decided: a model split over two devices."""

import itertools
import random
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, gap, largest
from course_lib.exercises.e1_1.observe import another
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many, size

_TEXTS = Texts("1.1")
_SHAPES = ((8, 256, 64), (12, 192, 50))  # Linear layers, width, samples
_SPARE = 0.05  # of a layer, or of the bytes of an activation


def cases(seed: int) -> Iterator[Case]:
    """Yield models of two depths and widths; expected: the output, x's gradient."""
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
    if "output" not in rank:
        raise _wrong("no function", case, returned=shown(rank["returned"]))
    if not torch.is_tensor(rank["output"]):
        raise _wrong("no output", case, returned=shown(rank["output"]))
    for look in (_judge_layers, _judge_travel, _judge_values):
        look(case, rank)
    return f"{size(x.nbytes)} of {len(model)} modules"


def _wrong(found, case, *, clue=None, **fill):
    return _TEXTS.wrong(found, clue=clue, modules=len(case.given["model"]), **fill)


def _judge_layers(case, rank):
    """Compare what lies on either device, and what is computed there."""
    model, x = case.given["model"], case.given["x"]
    half = len(model) // 4
    units = {
        "held": sum(p.nbytes for p in model[0].parameters()),
        "computed": 2 * x.numel() * x.shape[1],
    }
    for what, unit in units.items():
        counts = {name: number / unit for name, number in rank[what].items()}
        right = [half * (name != "cpu") for name in counts]
        if any(abs(n - m) >= _SPARE for n, m in zip(counts.values(), right)):
            told = listed(f"{name} ({count:.3g})" for name, count in counts.items())
            shares = [count / half for count in counts.values()]
            clue = {what: shares, "crossings": len(rank["crossings"])}
            fill = {"told": told, "half": half, "first": 2 * half}
            raise _wrong(what, case, clue=clue, **fill)


def _judge_travel(case, rank):
    """Look at where the output lies, and at what crosses."""
    crossings, nbytes = rank["crossings"], case.given["x"].nbytes
    copies = [count / nbytes for count in crossings]
    *_, device = rank["held"]
    faults = {
        "other place": rank["places"] != [device],
        "over the CPU": rank["over_cpu"] > _SPARE * nbytes,
        "other copies": len(copies) != 1 or abs(copies[0] - 1) > _SPARE,
    }
    clue = {"crossings": copies, "first": rank["crossed"], **faults}
    fill = {"device": device, "places": " and ".join(rank["places"])}
    fill |= {"over_cpu": size(rank["over_cpu"]), "expected": size(nbytes)}
    fill |= {"copies": many(len(copies), "transfer"), "crossed": size(sum(crossings))}
    for name in faults:
        if faults[name]:
            what = _what_crosses(rank, **case.given)
            raise _wrong(name, case, clue=clue, what=what, **fill)


@torch.no_grad()
def _what_crosses(rank, model, x):
    """The first copy between the devices and what follows, as parts of the model."""
    activations = itertools.accumulate(model, lambda h, part: part(h), initial=x)
    for first, h in enumerate(activations):
        if not _apart(rank["crossed"], h):
            break
    else:
        return _TEXTS.hint("nothing known crosses", found=shown(rank["crossed"]))
    rests = [k for k in range(len(model)) if not _apart(rank["output"], model[k:](h))]
    rest = f"model[{rests[-1]}:]" if rests else "no model[k:]"
    return _TEXTS.hint(
        "activation crosses" if first else "x crosses", first=first, rest=rest
    )


def _judge_values(case, rank):
    """Compare the output, x's gradient and the next output with the whole model's."""
    for what, expected in zip(("output", "gradient"), case.expected):
        if apart := _apart(rank[what], expected):
            crosses = _what_crosses(rank, **case.given)
            raise _wrong(what, case, clue={what: rank[what]}, apart=apart, what=crosses)
    x = another(case.given["x"])
    with torch.no_grad():
        apart = _apart(rank["again"], case.given["model"](x))
    if apart:
        raise _wrong("another x", case, apart=apart, rows=len(x))


def _apart(found, expected):
    """By how much a tensor differs from another one in words, "" if it does not."""
    if (
        not torch.is_tensor(found)
        or found.shape != expected.shape
        or found.is_complex()
    ):
        return "missing, or of another kind than"
    off = gap({"": found.double()}, {"": expected.double()}) / largest({"": expected})
    if off <= CLOSE:
        return ""
    return f"{100 * off:.3g}\N{NO-BREAK SPACE}% off from" if off < 1e6 else "far from"
