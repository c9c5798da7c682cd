"""Exercise 2.1, decided: a training with gradient accumulation."""

import copy
import random
from collections.abc import Iterator
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap, largest
from course_lib.exercises.exercise import Case
from course_lib.exercises.judge.e2_2 import (
    gradient,
    network,
    refuse_other_work,
    weighed,
)
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import many, size

_TEXTS = Texts("2.1")
_STEPS, _BATCH = 4, 48
_SHARE = 5  # 8 micro-batches may need a fifth of the memory of a whole batch


def cases(seed: int) -> Iterator[Case]:
    """Digits in 8 micro-batches by SGD, and in other parts with momentum.

    Expected are the weights of whole batches, and their losses.
    """
    first, more = 200 * seed, random.Random(seed).choice((2, 3, 6, 12))
    images, labels = baseline.samples(first + _STEPS * _BATCH)
    batches = list(zip(images[first:].split(_BATCH), labels[first:].split(_BATCH)))
    sgd = partial(torch.optim.SGD, lr=0.5)
    moving = partial(torch.optim.SGD, lr=0.2, momentum=0.9)
    for parts, optimizer in ((8, sgd), (more if seed else 4, moving)):
        given = {"model": network(seed, 6), "optimizer": optimizer, "batches": batches}
        given["parts"] = parts
        yield Case(given, expected=_trained(given))


def _trained(given):
    """The weights after a step for each whole batch, and the losses."""
    model = copy.deepcopy(given["model"])
    optimizer = given["optimizer"](model.parameters())
    losses = []
    for images, labels in given["batches"]:
        loss = cross_entropy(model(images), labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {n: p.detach() for n, p in model.named_parameters()}, losses


def judge(case: Case, seen) -> str:
    """Compare weights, then the optimizer, the losses, the work and the memory."""
    [rank] = seen
    weights, losses = case.expected
    parts, whole = case.given["parts"], rank["baseline"]["whole"]
    _judge_weights(case.given, rank, weights)
    _judge_optimizer(rank)
    _judge_losses(rank, losses)
    refuse_other_work(rank, rank["baseline"])
    if others := [n for n in rank["passes"] if n != _BATCH // parts]:
        fill = {"at_once": many(others[0], "sample"), "samples": _BATCH // parts}
        clue, also = {"at_once": others[0]}, {"passes": len(rank["passes"])}
        raise _TEXTS.wrong("other parts", clue=clue, also=also, **fill)
    # on CUDA the workspaces of libraries may be larger than all activations
    allowed = max(1.4 * rank["baseline"]["peak"], whole / _SHARE if parts == 8 else 0)
    if rank["peak"] > allowed:
        fill = {"parts": parts, "peak": size(rank["peak"]), "allowed": size(allowed)}
        clue = {"peak": rank["peak"] / rank["baseline"]["peak"]}
        raise _TEXTS.wrong("memory", clue=clue, **fill)
    peaks = f"{size(rank['peak'])} in place of {size(whole)}"
    return f"{parts} micro-batches at a peak of {peaks}"


def _judge_weights(given, rank, expected):
    off = gap(rank["weights"], expected)
    if off <= CLOSE:
        return
    passes = {"passes": len(rank["passes"]), "most": max(rank["passes"], default=0)}
    clue, also = apart(rank["weights"], expected), {"steps": rank["steps"], **passes}
    fill = {"batches": _STEPS, "parts": given["parts"], "off": off, "most": CLOSE}
    hint = _why(given, rank)
    raise _TEXTS.wrong("weights", hint=hint, clue=clue, also=also, **fill)


def _why(given, rank):
    """The hint for what was counted and differs, the most telling first."""
    passes, steps, samples = rank["passes"], rank["steps"], _BATCH // given["parts"]
    if not passes:
        return _TEXTS.hint("no passes")
    if others := [many(n, "sample") for n in passes if n != samples]:
        return _TEXTS.hint("other parts", at_once=others[0], samples=samples)
    if steps != _STEPS:
        return _TEXTS.hint("other steps", steps=many(steps, "step"), batches=_STEPS)
    if not any(grad.any() for grad in rank["first"].values()):
        return _TEXTS.hint("gone")
    each = _first_gradients(given["model"], given["batches"][0], given["parts"])
    mean = {name: sum(part[name] for part in each) / len(each) for name in each[0]}
    differences = apart(rank["first"], mean)
    if not differences:
        return _TEXTS.hint("some without")
    off = largest(differences) / largest(mean)
    if off <= CLOSE:
        return _TEXTS.hint("later")
    shares = [1 / len(each)] * len(each)
    counts = weighed(rank["first"], each, shares)
    return _TEXTS.hint("first step", counts=counts)


def _first_gradients(model, batch, parts):
    pairs = zip(*(part.chunk(parts) for part in batch))
    return [gradient(model, cross_entropy(model(x), y)) for x, y in pairs]


def _judge_optimizer(rank):
    before, after = rank["settings"]
    if after != before:
        raise _TEXTS.wrong("settings", now=after[0]["lr"], rate=before[0]["lr"])
    if rank["steps"] != _STEPS:
        raise _TEXTS.wrong("other optimizer", steps=rank["steps"], batches=_STEPS)


def _judge_losses(rank, expected):
    returned = rank["returned"]
    if not isinstance(returned, list | tuple):
        raise _TEXTS.wrong("no list", returned=shown(returned), batches=_STEPS)
    if rank["graphs"]:
        raise _TEXTS.wrong("graphs", batches=_STEPS)
    if any(map(torch.is_tensor, returned)):
        raise _TEXTS.wrong("tensors")
    found = list(map(number_of, returned))
    complete = len(found) == len(expected) and None not in found
    off = [one - other for one, other in zip(found, expected)] if complete else []
    # a number rounded to three digits is fine for a log
    if complete and all(abs(one) <= 1e-3 * loss for one, loss in zip(off, expected)):
        return
    fill = {"logged": _listed(found), "expected": _listed(expected)}
    clue = {"off": off if complete else len(found)}
    raise _TEXTS.wrong("losses", clue=clue, **fill)


def _listed(numbers):
    listed = ", ".join("?" if n is None else f"{n:.3g}" for n in numbers[:4])
    return f"[{listed}{', …' if len(numbers) > 4 else ''}]"


def draw(case: Case, seen):
    """The memory of the training over its time."""
    from course_lib.plots.memory_over_time import plot_memory_over_time

    return plot_memory_over_time(seen[0]["trace"])
