"""Exercise 1.1, decided: a model split over two devices."""

import itertools
import math
import random
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.observe.e1_1 import observe
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, size

_TEXTS = Texts("1.1")
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
    nbytes = sum(p.nbytes for p in model[0].parameters())
    held = [number / nbytes for number in rank["held"]]
    fill = {"half": half, "first": 2 * half}
    if not all(abs(count - half) < _SPARE for count in held):
        clue = {"held": [count / half for count in held]}
        clue["crossings"] = len(rank["crossings"])
        fill["told"] = _by_device(rank["names"], held)
        raise _wrong("other layers", case, clue=clue, **fill)
    names = sorted({*rank["names"], *rank["flops"]})
    flops = 2 * x.numel() * x.shape[1]
    computed = [rank["flops"].get(name, 0) / flops for name in names]
    off = [count - half * (name != "cpu") for name, count in zip(names, computed)]
    if not all(abs(count) < _SPARE for count in off):
        fill["told"] = _by_device(names, computed)
        raise _wrong("other work", case, clue={"computed": computed}, **fill)


def _by_device(names, counts):
    return listed(f"{name} ({count:.3g})" for name, count in zip(names, counts))


def _judge_travel(case, rank):
    """Look at where the output lies, and at what crosses."""
    crossings, nbytes = rank["crossings"], case.given["x"].nbytes
    copies = [count / nbytes for count in crossings]
    clue = {"crossings": copies, "first": rank["crossed"]}
    clue["over_cpu"] = rank["over_cpu"] / nbytes
    clue["stays"] = rank["places"] == [rank["names"][1]]
    fill = {"device": rank["names"][1], "places": " and ".join(rank["places"])}
    fill |= {"over_cpu": size(rank["over_cpu"]), "expected": size(nbytes)}
    if not clue["stays"]:
        raise _wrong("other place", case, clue=clue, **fill)
    if clue["over_cpu"] > _SPARE:
        raise _wrong("over the CPU", case, clue=clue, **fill)
    if len(copies) != 1 or abs(copies[0] - 1) > _SPARE:
        verb = "copy crosses" if len(copies) == 1 else "copies cross"
        fill |= {"copies": f"{len(copies)} {verb}", "crossed": size(sum(crossings))}
        fill["what"] = _what_crosses(rank, **case.given)
        raise _wrong("other copies", case, clue=clue, **fill)


@torch.no_grad()
def _what_crosses(rank, model, x):
    """The first copy between the devices and what follows, as parts of the model."""
    activations = itertools.accumulate(model, lambda h, part: part(h), initial=x)
    for first, h in enumerate(activations):
        if not _apart(rank["crossed"], h):
            break
    else:
        return _TEXTS.hint("nothing known crosses", found=shown(rank["crossed"]))
    if not first:
        return _TEXTS.hint("x crosses")
    rest = "no model[k:]"
    for k in range(len(model)):
        if not _apart(rank["output"], model[k:](h)):
            rest = f"model[{k}:]"
    return _TEXTS.hint("activation crosses", first=first, rest=rest)


def _judge_values(case, rank):
    """Compare the output and x's gradient with those of the whole model."""
    output, gradient = case.expected
    if apart := _apart(rank["output"], output):
        clue, what = {"output": rank["output"]}, _what_crosses(rank, **case.given)
        raise _wrong("other output", case, clue=clue, apart=apart, what=what)
    if apart := _apart(rank["gradient"], gradient):
        clue = {"gradient": rank["gradient"]}
        raise _wrong("other gradient", case, clue=clue, apart=apart)


def _apart(found, expected):
    """By how much a tensor differs from another one in words, "" if it does not."""
    if found is None or found.shape != expected.shape or found.is_complex():
        return "missing, or of another kind than"
    found, expected = found.double(), expected.double()
    largest = expected.abs().max()
    off = ((found - expected).abs().max() / largest).item()
    if not math.isfinite(off):
        return "no number (nan), unlike"
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
