"""Exercise 2.3, decided: a mean over tokens from parts that hold different numbers."""

import itertools
import math
import random
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.e2_2.judge import (
    counted,
    gradient,
    judge_again,
    judge_cost,
    judge_gradient,
)
from course_lib.exercises.e2_2.observe import observe as observe
from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.texts import Texts
from course_lib.text import listed

_TEXTS = Texts("2.3")
_VOCABULARY, _IGNORED = 20, -100
# per micro-batch the lengths of its sentences; the first tokens of each are its
# question, which the model does not learn, so a short one has no target at all
_QUESTION = 2
_LENGTHS = (
    ((9, 8, 7, 9), (4, 3, 5), (9, 3)),
    ((12, 3), (5, 6, 4, 3, 7)),
    ((8, 8, 6), (2, 1), (7, 3, 4)),
    tuple((7, 5 + i % 3, 9) for i in range(8)),
)


def _targets_in(part):
    return int((part[1] != _IGNORED).sum())


# what an answer may count in a part
_COUNTS = {
    "targets that are not −100": _targets_in,
    "all tokens, padding and questions too": lambda part: part[1].numel(),
    "sentences": lambda part: len(part[1]),
}


def cases(seed: int) -> Iterator[Case]:
    """Yield sentences of uneven lengths; the third case has a part without targets.

    Expected are the gradient of each micro-batch's summed loss, and its share.
    """
    words = torch.Generator().manual_seed(seed)
    *several, last = _LENGTHS if not seed else _drawn(random.Random(seed))
    for lengths in (*several, last):
        model, parts = _sentence_model(seed), [_padded(part, words) for part in lengths]
        each = [
            gradient(model, cross_entropy(model(tokens).mT, targets, reduction="sum"))
            for tokens, targets in parts
        ]
        shares = [1 / sum(map(_targets_in, parts))] * len(parts)
        given = {"model": model, "microbatches": parts, "again": lengths is last}
        yield Case(given, expected=(each, shares))


def _drawn(numbers):
    def part():
        return [numbers.randint(3, 12) for _ in range(numbers.randint(2, 5))]

    many = [[9, numbers.randint(5, 9), 7] for _ in range(8)]
    return [part(), part(), part()], [part(), part()], [part(), [2, 1], part()], many


def _sentence_model(seed):
    """Tokens i64[n, length] to f32[n, length, 20]: what each may be followed by."""
    with baseline.seeded(seed):
        layers = [nn.Embedding(_VOCABULARY, 16), nn.Linear(16, 16), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(16, _VOCABULARY))


def _padded(lengths, words):
    """Tokens and targets i64[n, longest] of one micro-batch."""
    shape = len(lengths), max(lengths)
    tokens = torch.zeros(shape, dtype=torch.long)
    targets = torch.full(shape, _IGNORED)
    for row, length in enumerate(lengths):
        sentence = torch.randint(0, _VOCABULARY, (length + 1,), generator=words)
        tokens[row, :length] = sentence[:-1]
        targets[row, _QUESTION:length] = sentence[_QUESTION + 1 :]
    return tokens, targets


def _mixed(found, each, parts):
    """The hint for means that were multiplied by one count and divided by another.

    Nothing if these gradients are none of such means.
    """
    grads = list(found.values())
    if not all(grad.isfinite().all() for grad in grads) or not any(
        map(torch.any, grads)
    ):
        return ""
    found = counted(found, each)
    full = [number for number, part in enumerate(parts) if _targets_in(part)]
    for (times, one), (over, other) in itertools.permutations(_COUNTS.items(), 2):
        total = sum(map(other, parts))
        told = [one(parts[n]) / _targets_in(parts[n]) / total for n in full]
        if found and all(
            math.isclose(found[n], t, rel_tol=0.01) for n, t in zip(full, told)
        ):
            return _TEXTS.hint("mixed", times=times, over=over)
    return ""


def judge(case: Case, seen) -> str:
    """Compare the gradient with that of all sentences together, then what it cost."""
    [rank] = seen
    parts = case.given["microbatches"]
    counts = list(map(_targets_in, parts))
    where = f"micro-batches with {listed(counts)} targets"
    try:
        judge_gradient(rank, *case.expected, where=where, noun="summed losses")
    except Wrong as wrong:
        if "grads" in (wrong.clue or {}):  # they are there, and of the right shapes
            wrong.hint = _mixed(rank["grads"], case.expected[0], parts) or wrong.hint
        raise
    if case.given["again"]:
        rest = counts[:-1]
        judge_again(rank, case.expected[0], [1 / sum(rest)] * len(rest))
    judge_cost(rank, max(len(targets) for _, targets in parts), where=where)
    return " + ".join(map(str, counts))
