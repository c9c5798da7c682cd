"""Exercise 2.2, decided: the exact gradient from micro-batches of any sizes."""

import math
import random
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap, largest
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import listed, size

_TEXTS = Texts("2.2")
# the second split, whose first is neither largest nor last, tells more mistakes
# apart, the last one how many wait in memory
_SPLITS = ((8, 8, 8, 6), (5, 1, 20, 8, 3), (16,), (4, 5, 3, 4, 5, 4, 3, 5))
# of the work that is needed: a part without loss may be left out, and one more forward
# pass is no mistake
_LEAST, _MOST = 0.6, 1.6
_REST = 1e-3  # of a gradient that no sum of micro-batches explains
_ROUNDED = 0.03  # relative error of a gradient in half precision


def cases(seed: int) -> Iterator[Case]:
    """Yield digits in micro-batches of uneven sizes, and a small network for each.

    Expected are the gradient of each micro-batch's mean loss, and its share.
    """
    *splits, last = _SPLITS if not seed else _drawn(random.Random(seed))
    for sizes in (*splits, last):
        model, parts = network(seed, 2), _microbatches(sizes, 40 * seed)
        each = [gradient(model, cross_entropy(model(x), y)) for x, y in parts]
        shares = [size / sum(sizes) for size in sizes]
        # at the end, when no number is right for one case alone
        given = {"model": model, "microbatches": parts, "again": sizes is last}
        yield Case(given, expected=(each, shares))


def _drawn(numbers):
    """The last one shorter, all uneven, a single one, many small ones."""
    common = numbers.choice((4, 7, 9))
    even = (common,) * numbers.randint(2, 4) + (numbers.randint(1, common - 1),)
    uneven = tuple(numbers.sample(range(1, 21), numbers.randint(3, 5)))
    small = tuple(numbers.randint(3, 5) for _ in range(8))
    return even, uneven, (numbers.randint(5, 20),), small


def network(seed: int, convolutions: int) -> nn.Module:
    """Return a network that remembers much more of a sample than it has parameters."""
    with baseline.seeded(seed):
        layers = []
        for channels in [1] + [8] * (convolutions - 1):
            layers += [nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 10))


def _microbatches(sizes, first):
    images, labels = baseline.samples(first + sum(sizes))
    return list(zip(images[first:].split(sizes), labels[first:].split(sizes)))


def judge(case: Case, seen) -> str:
    """Compare the gradient with that of the whole batch, then what it cost."""
    [rank] = seen
    sizes = [len(labels) for _, labels in case.given["microbatches"]]
    where = f"micro-batches of {listed(sizes)}"
    judge_gradient(rank, *case.expected, where=where, noun="mean losses")
    if case.given["again"]:
        rest = sizes[:-1]
        judge_again(rank, case.expected[0], [size / sum(rest) for size in rest])
    judge_cost(rank, max(sizes), where=where)
    return " + ".join(map(str, sizes))


def gradient(model: nn.Module, loss: torch.Tensor) -> dict:
    """Return the gradient of a loss by the names of the parameters."""
    names = [name for name, _ in model.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(model.parameters()))))


def judge_gradient(
    rank: dict, each, shares, *, where: str, noun: str, of="micro-batches"
) -> None:
    """Compare `.grad` as it was left with `each` micro-batch's times its share.

    `noun` is what each gradient is of, and `shares` what it counts in a right answer.
    Of large ones `rank` has some numbers alone, and in `off` how far all are.
    """
    found, missing, also = rank["grads"], rank["without"], {"passes": rank["passes"]}
    if rank["moved"]:
        raise _TEXTS.wrong("moved", where=where)
    if missing:
        fill = {"count": len(missing), "all": len(each[0]), "first": missing[0]}
        fill |= {"where": where, "why": "frozen" if found else "elsewhere"}
        share = len(missing) / len(each[0])
        raise _TEXTS.wrong("no gradient", clue={"without": share}, also=also, **fill)
    expected = {n: sum(s * g[n] for s, g in zip(shares, each)) for n in each[0]}
    differences = apart(found, expected)
    if not differences:
        raise _TEXTS.wrong("other shapes", where=where)
    # relative to the largest entry, for gradients may be small
    off = max(largest(differences) / largest(expected), rank.get("off", 0.0))
    if off <= CLOSE:
        return
    fill = {"off": 100 * off, "most": 100 * CLOSE, "where": where}
    fill["hint"] = weighed(found, each, shares, noun=noun, of=of)
    clue = {"apart": differences, "grads": found}
    raise _TEXTS.wrong("off", clue=clue, also=also, **fill)


def judge_again(rank: dict, each, shares) -> None:
    """Compare what a second call left in a fresh model, given the first few parts.

    `each` and `shares` as for `judge_gradient`.
    """
    expected = {n: sum(s * g[n] for s, g in zip(shares, each)) for n in each[0]}
    off = gap(rank["again"], expected) / largest(expected)
    if off > CLOSE:
        fill = {"off": 100 * off, "most": 100 * CLOSE, "count": len(shares)}
        raise _TEXTS.wrong("again", **fill)


def weighed(
    found: dict, each: list, shares: list, *, noun="mean losses", of="micro-batches"
) -> str:
    """Return the hint for a gradient: by how much each micro-batch counts in it.

    `found` and `each` are gradients by the names of parameters. `of` says what the
    parts are.
    """
    target, *vectors = map(_flat, (found, *each))
    if not target.isfinite().all():
        return _TEXTS.hint("not finite", of=of)
    if not target.any():
        return _TEXTS.hint("all 0")
    right = torch.tensor(shares).double()
    off = (torch.stack(vectors, 1) @ right - target).norm() / target.norm()
    counts = counted(found, each)
    if counts is None:
        return _TEXTS.hint("nearly" if off < _ROUNDED else "no sum", noun=noun, of=of)
    fill = {"counted": _in_words(counts), "right": _in_words(shares)}
    if fill["counted"] == fill["right"]:  # what differs is too small to be shown
        return _TEXTS.hint("nearly")
    return _TEXTS.hint("counts", noun=noun, of=of, **fill)


def counted(found: dict, each: list) -> list[float] | None:
    """Return how often each of some gradients is in another one; None if it is no sum.

    All by the names of parameters, with finite numbers that are not all 0.
    """
    target, *vectors = map(_flat, (found, *each))
    matrix = torch.stack(vectors, 1)
    # the usual driver fails where a micro-batch has no gradient
    least = torch.linalg.lstsq(matrix, target[:, None], driver="gelsd")
    rest = (matrix @ least.solution.flatten() - target).norm() / target.norm()
    return least.solution.flatten().tolist() if rest < _REST else None


def _in_words(numbers):
    # what is left of a rounded sum is no number to show
    told = [f"{round(number, 6) + 0.0:.3g}" for number in numbers]
    return f"{told[0]} each" if len(set(told)) == 1 < len(told) else ", ".join(told)


def _flat(grads):
    return torch.cat([grad.detach().flatten() for grad in grads.values()]).double()


def judge_cost(rank: dict, most: int, *, where: str) -> None:
    """Refuse a right gradient that takes other work than it needs, or more memory.

    A micro-batch has at most `most` samples.
    """
    if rank["changed"]:
        raise _TEXTS.wrong("overwritten", where=where)
    refuse_other_work(rank, rank["baseline"]["one"])
    one, held = (rank["baseline"][way]["peak"] for way in ("one", "all"))
    # gradients may be held once more, and losses in twice the precision
    allowed = max(2 * one, (one + held) / 2)
    facts = (
        ("more at once", rank["passes"], most, 0, most),
        ("more memory", [rank["peak"] / one], 1, 0, allowed / one),
    )
    peaks = {"peak": rank["peak"], "allowed": allowed, "one": one}
    fill = {name: size(count) for name, count in peaks.items()}
    _TEXTS.refuse(facts, where=where, **fill)


def refuse_other_work(rank: dict, needed: dict) -> None:
    """Refuse much more work than is needed, less, and work on another device."""
    flops, device = rank["flops"], rank["device"]
    total = needed["flops"][device]
    facts = (
        ("less work", [flops.get(device, 0) / total], 1, _LEAST, math.inf),
        ("more work", [sum(flops.values()) / total], 1, 0, _MOST),
    )
    _TEXTS.refuse(facts, device=device)
