"""Exercise 2.2, decided: the exact gradient from micro-batches of any sizes."""

import random
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, largest
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e2_2 import observe
from course_lib.text import listed, many, size

# the second split, whose first is neither largest nor last, tells more mistakes
# apart, the last one how many wait in memory
_SPLITS = ((8, 8, 8, 6), (5, 1, 20, 8, 3), (16,), (4, 5, 3, 4, 5, 4, 3, 5))
# of the work that is needed: a part without loss may be left out, and one more forward
# pass is no mistake
_LEAST, _MOST = 0.6, 1.6
_REST = 1e-3  # of a gradient that no sum of micro-batches explains
_ROUNDED = 0.03  # relative error of a gradient in half precision


def cases(seed: int) -> Iterator[Case]:
    """Digits in micro-batches of uneven sizes, and a small network for each split.

    Expected are the gradient of each micro-batch's mean loss, and its share.
    """
    for sizes in _SPLITS if not seed else _drawn(random.Random(seed)):
        model, parts = _network(seed), _microbatches(sizes, 40 * seed)
        each = [gradient(model, cross_entropy(model(x), y)) for x, y in parts]
        shares = [size / sum(sizes) for size in sizes]
        given = {"model": model, "microbatches": parts}
        yield Case(given, expected=(each, shares))


def _drawn(numbers):
    """The last one shorter, all uneven, a single one, many small ones."""
    common = numbers.choice((4, 7, 9))
    even = (common,) * numbers.randint(2, 4) + (numbers.randint(1, common - 1),)
    uneven = tuple(numbers.sample(range(1, 21), numbers.randint(3, 5)))
    small = tuple(numbers.randint(3, 5) for _ in range(8))
    return even, uneven, (numbers.randint(5, 20),), small


def _network(seed):
    """Much more to remember for a sample than there are parameters."""
    with baseline.seeded(seed):
        layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()]
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
    judge_cost(rank, max(sizes), where=where)
    return " + ".join(map(str, sizes))


def gradient(model: nn.Module, loss: torch.Tensor) -> dict:
    """The gradient of a loss by the names of the parameters."""
    names = [name for name, _ in model.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(model.parameters()))))


def judge_gradient(rank: dict, each, shares, *, where: str, noun: str) -> None:
    """Compare `.grad` as it was left with `each` micro-batch's times its share.

    `noun` is what each gradient is of, and `shares` what it counts in a right answer.
    """
    if rank["moved"]:
        raise Wrong(
            f"{where}: the weights have changed",
            "Only gradients are asked for: no optimizer step here.",
        )
    found, names = rank["grads"], list(each[0])
    if rank["without"]:
        raise _missing(rank, names, where)
    if any(found[name].shape != each[0][name].shape for name in names):
        raise Wrong(
            f"{where}: the gradients have other shapes than the parameters",
            "Let backward fill `.grad`: it has the shape of its parameter.",
        )
    expected = {n: sum(s * g[n] for s, g in zip(shares, each)) for n in names}
    apart = {name: found[name] - expected[name] for name in names}
    # relative to the largest entry, for gradients may be small
    off = largest(apart) / largest(expected)
    if off <= CLOSE:
        return
    told = f"up to {100 * off:.2f}\N{NO-BREAK SPACE}% off" if off < 1e6 else "far off"
    most = f"{100 * CLOSE:g}\N{NO-BREAK SPACE}%"
    raise Wrong(
        f"{where}: the gradient is {told if off == off else 'no number (nan)'},"
        f" expected at most {most}",
        weighed(found, each, shares, off=off, noun=noun),
        clue={"apart": apart, "grads": {name: found[name] for name in names}},
        also={"passes": rank["passes"]},
    )


def _missing(rank, names, where):
    count = len(rank["without"])
    hint = (
        "Gradients belong in `.grad` of the parameters of `model` itself, not of a copy"
        " and not in what is returned. And zero_grad after the loop wipes out what"
        " backward has added up."
    )
    if not rank["passes"]:
        hint = "No sample went through the model on its device. Were all left out?"
    elif count < len(names):
        hint = "Every parameter is trained. Is one frozen, or cut off by detach()?"
    return Wrong(
        f"{where}: {count} of {many(len(names), 'parameter')} have no gradient in"
        f" `.grad`, the first is {rank['without'][0]}",
        hint,
        clue={"without": count / len(names)},
        also={"passes": rank["passes"]},
    )


def weighed(
    found: dict, each: list, shares: list, *, off: float, noun: str, of="micro-batches"
) -> str:
    """The hint for a gradient: by how much each micro-batch counts in it.

    `found` and `each` are gradients by the names of parameters, `off` a relative error.
    `of` says what the parts are.
    """
    vectors = [_flat(part, each[0]) for part in each]
    target, matrix = _flat(found, each[0]), torch.stack(vectors, 1)
    if not target.isfinite().all():
        return (
            "Is a number divided by 0, or a loss far too large? One of the"
            f" {of} may have nothing to average."
        )
    if not target.any():
        return (
            "All gradients are 0. Is zero_grad called after backward, or a weight"
            " rounded down to 0 by `//`?"
        )
    # the usual driver fails where a micro-batch has no gradient
    least = torch.linalg.lstsq(matrix, target[:, None], driver="gelsd")
    counts = least.solution.flatten()
    rest = (matrix @ counts - target).norm() / target.norm()
    if rest < _REST:
        seen, right = map(_in_words, (counts.tolist(), shares))
        return (
            f"In this gradient the {noun} of the {of} count {seen}. Expected: {right}."
        )
    if off < _ROUNDED:
        return (
            "This is nearly right. Is something rounded, to half precision perhaps, or"
            " does a sample meet the target of another?"
        )
    return (
        f"No sum of the {of}' {noun} has this gradient. Is the loss another one, is a"
        " sample left out or used twice, or does it meet the target of another?"
    )


def _in_words(numbers):
    # what is left of a rounded sum is no number to show
    told = [f"{round(number, 6) + 0.0:.3g}" for number in numbers]
    return f"{told[0]} each" if len(set(told)) == 1 < len(told) else ", ".join(told)


def _flat(grads, names):
    return torch.cat([grads[name].detach().flatten().double() for name in names])


def judge_cost(rank: dict, most: int, *, where: str) -> None:
    """Refuse a right gradient that takes other work than it needs, or more memory.

    A micro-batch has at most `most` samples.
    """
    if rank["changed"]:
        raise Wrong(
            f"{where}: the gradient is right, but the micro-batches were overwritten",
            "Work on copies: what was given is still needed in the next epoch.",
        )
    refuse_other_work(rank, rank["baseline"]["one"], rank["device"])
    refuse_more_at_once(rank["passes"], most)
    one, held = (rank["baseline"][way]["peak"] for way in ("one", "all"))
    # gradients may be held once more, and losses in twice the precision
    peak, allowed = rank["peak"], max(2 * one, (one + held) / 2)
    if peak > allowed:
        raise Wrong(
            f"{where}: the peak was {size(peak)}, expected at most {size(allowed)}; one"
            f" micro-batch at a time needs {size(one)}",
            "The gradient is right, but the graphs of several micro-batches wait in"
            " memory. Call backward right after each forward, and keep no loss or"
            " output with its graph: gradients add up by themselves.",
            clue={"peak": peak / one},
        )


def refuse_other_work(found: dict, needed: dict, device: str) -> None:
    """Refuse much more work than is needed, less, and work on another device."""
    total, here = needed["flops"][device], found["flops"].get(device, 0)
    if here < _LEAST * total:
        raise Wrong(
            f"{device} computed {100 * here / total:.0f} % of what the samples need",
            "The result is right, but it was computed elsewhere. Leave the model on its"
            " device, and put the micro-batches through it there.",
        )
    if sum(found["flops"].values()) > _MOST * total:
        times = sum(found["flops"].values()) / total
        raise Wrong(
            f"the answer computed {times:.2g} times what the samples need",
            "The result is right, but some of the work is done again. Each sample goes"
            " once through the model, forward and backward.",
        )


def refuse_more_at_once(passes: list[int], most: int) -> None:
    """Refuse more samples in one forward pass than a micro-batch has."""
    if max(passes, default=0) > most:
        raise Wrong(
            f"{max(passes)} samples went through the model at once, expected at most"
            f" {most}",
            "The result is right, but this needs the memory of more than a micro-batch,"
            " which accumulation saves. Put one micro-batch at a time through the"
            " model.",
            clue={"at_once": max(passes) / most},
            also={"passes": len(passes)},
        )


EXERCISE = Exercise(
    "2.2",
    observe,
    cases,
    judge,
    proof="the gradient of the whole batch for {} samples, one micro-batch at a time",
)
