"""Exercise 2.1, decided: a training with gradient accumulation."""

import copy
import random
from collections.abc import Iterator
from functools import partial

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap, largest
from course_lib.exercises.e2_2.judge import (
    gradient,
    network,
    refuse_other_work,
    weighed,
)
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import size

_TEXTS = Texts("2.1")
_STEPS, _BATCH = 4, 48
_SHARE = 5  # 8 micro-batches may need a fifth of the memory of a whole batch


def cases(seed: int) -> Iterator[Case]:
    """Yield digits in 8 micro-batches by SGD, and in other parts with momentum.

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
    """Compare passes, steps, weights, settings and losses, then work and memory."""
    [rank] = seen
    weights, losses = case.expected
    parts, (before, after) = case.given["parts"], rank["settings"]
    count = _BATCH // parts
    facts = (
        ("other parts", rank["passes"], count, count, count),
        ("other steps", [rank["steps"]], _STEPS, _STEPS, _STEPS),
    )
    _TEXTS.refuse(facts, batch=_BATCH)
    _judge_weights(case.given, rank, weights)
    if after != before:
        raise _TEXTS.wrong("settings", now=after[0]["lr"], rate=before[0]["lr"])
    _judge_losses(rank["returned"], losses)
    if rank["changed"]:
        raise _TEXTS.wrong("overwritten")
    refuse_other_work(rank, rank["baseline"])
    return refuse_more_memory(_TEXTS, "memory", rank, parts, _SHARE)


def refuse_more_memory(
    texts: Texts, name: str, rank: dict, parts: int, whole_by: int
) -> str:
    """Refuse a higher peak than a right training has, and say both peaks.

    Eight parts may need whole batches' peak divided by `whole_by`. `name` is that of
    the sentence in `texts`.
    """
    peak, whole, own = rank["peak"], rank["baseline"]["whole"], rank["baseline"]["peak"]
    # on CUDA the workspaces of libraries may be larger than all activations
    allowed = max(1.4 * own, whole / whole_by if parts == 8 else 0)
    fill = {"parts": parts, "peak": size(peak), "allowed": size(allowed)}
    texts.refuse([(name, [peak / own], 1, 0, allowed / own)], **fill)
    return f"{parts} micro-batches at a peak of {size(peak)} in place of {size(whole)}"


def _judge_weights(given, rank, expected):
    off = gap(rank["weights"], expected)
    if off > CLOSE:
        fill = {"batches": _STEPS, "parts": given["parts"], "off": off, "most": CLOSE}
        fill["hint"] = _of_first_step(rank["first"], given)
        clue = apart(rank["weights"], expected)
        raise _TEXTS.wrong("weights", clue=clue, **fill)


def _of_first_step(found, given):
    """The hint for other weights: how the gradient of the first step differs."""
    model, batch = given["model"], given["batches"][0]
    pairs = [batch, *zip(*(part.chunk(given["parts"]) for part in batch))]
    whole, *each = (gradient(model, cross_entropy(model(x), y)) for x, y in pairs)
    if not apart(found, whole):
        return _TEXTS.hint("without")
    if gap(found, whole) <= CLOSE * largest(whole):
        return _TEXTS.hint("later")
    counts = weighed(found, each, [1 / len(each)] * len(each))
    return _TEXTS.hint("first step", counts=counts)


def _judge_losses(returned, expected):
    if not isinstance(returned, list | tuple):
        raise _TEXTS.wrong("no list", returned=shown(returned), batches=_STEPS)
    if any(map(torch.is_tensor, returned)):
        raise _TEXTS.wrong("tensors")
    found = list(map(number_of, returned))
    off = [(one or 0.0) - other for one, other in zip(found, expected)]
    # a number rounded to three digits is fine for a log
    close = all(abs(one) <= 1e-3 * loss for one, loss in zip(off, expected))
    if not close or len(found) != len(expected):
        fill = {"logged": _rounded(found), "expected": _rounded(expected)}
        raise _TEXTS.wrong("losses", clue={"off": off, "count": len(found)}, **fill)


def _rounded(numbers):
    return shown([number and float(f"{number:.3g}") for number in numbers])


def draw(case: Case, seen):
    """Draw the memory of the training over its time."""
    from course_lib.plots.memory_over_time import plot_memory_over_time

    return plot_memory_over_time(seen[0]["trace"])
