"""Exercise 9.1, decided: bytes of the fullest rank under each stage of ZeRO."""

import functools
import random
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises.e9_1 import models
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown

_TEXTS = Texts("9.1")
_PARTS = ("weights", "gradients", "state")
_SHARED_FROM = dict(zip(_PARTS, (3, 2, 1)))  # stage
# what each model is, and the names of the hints for what is whole on a rank, and shared
_PLAIN = "a plain model", "whole", "shared"
_UNEVEN = "a model whose rows ranks do not divide", "any shape", "rows"
_TIED = "a model with a tied weight and a frozen one", "once", "frozen, too"
_MIXED = "a model in bfloat16 and float32", "own type", "rows of its type"


def cases(seed: int) -> Iterator[Case]:
    """Yield a plain model, then models that are irregular in one way after another."""
    numbers = random.Random(seed)
    rows = numbers.randint(2, 4)
    words, width = 10 * numbers.randint(2, 5) + 3, 5 * numbers.randint(1, 3) + 2
    made = (
        (_PLAIN, functools.partial(models.plain, rows), rows),
        (_UNEVEN, functools.partial(models.Uneven, 3 * rows + 2), 3),
        (_TIED, functools.partial(models.TiedText, words, width), 2 + seed % 2),
        (_MIXED, functools.partial(models.TiedText, words, width, torch.bfloat16), 5),
    )
    for kind, make, ranks in made:
        expected = {stage: held(make(), stage, ranks) for stage in range(4)}
        yield Case({"kind": kind, "make": make, "ranks": ranks}, expected=expected)


def held(model: nn.Module, stage: int, ranks: int) -> dict[str, int]:
    """Return the bytes on rank 0, which holds most.

    ZeRO's stages (Rajbhandari et al. 2020), cut as `fully_shard` does:
    https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """
    sizes = dict.fromkeys(_PARTS, 0)
    for p in model.parameters():
        share = p.chunk(ranks)[0].nbytes
        for part in _PARTS if p.requires_grad else _PARTS[:1]:
            count = 2 if part == "state" else 1
            sizes[part] += count * (share if stage >= _SHARED_FROM[part] else p.nbytes)
    return sizes


def judge(case: Case, seen) -> str:
    """Compare all parts in all stages, the first stages first."""
    [one] = seen
    (model, *_), ranks = case.given["kind"], case.given["ranks"]
    found = {stage: one["stages"][stage]["returned"] for stage in case.expected}
    for stage, returned in found.items():
        if not isinstance(returned, dict) or returned.keys() != set(_PARTS):
            where = {"stage": stage, "ranks": ranks}
            raise _TEXTS.wrong("no dict", returned=shown(returned), **where)
    clue = {
        stage: [_apart(found[stage][part], right) for part, right in sizes.items()]
        for stage, sizes in case.expected.items()
    }
    for stage, sizes in case.expected.items():
        for part, right in sizes.items():
            if number_of(found[stage][part]) != right:
                why = _why(case, stage, part, number_of(found[stage][part]))
                told = {"found": _bytes(found[stage][part]), "right": f"{right:,}"}
                told |= {"stage": stage, "ranks": ranks, "part": part, "model": model}
                raise _TEXTS.wrong("bytes", why=why, clue=clue, **told)
    return model


def _why(case, stage, part, number):
    """The name of the hint for a number of bytes that is wrong."""
    if number is not None and not number:
        return "nothing"
    if number is not None and number % 1:
        return "no bytes"
    kind, is_shared = case.given["kind"], stage >= _SHARED_FROM[part]
    all_of_it, one_part = case.expected[0][part], case.expected[3][part]
    _, whole, shared = kind
    if kind == _PLAIN and number not in (None, all_of_it, one_part):
        shared = "parts"
        whole = "too few" if number < all_of_it else whole
    return shared if is_shared else whole


def _apart(found, right):
    number = number_of(found)
    return None if number is None else number - right


def _bytes(value):
    number = number_of(value)
    return shown(value) if number is None else f"{number:,.10g}"
