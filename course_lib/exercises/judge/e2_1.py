"""Exercise 2.1, decided: a training with gradient accumulation."""

import copy
import random
from collections.abc import Iterator
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap, largest
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e2_2 import (
    gradient,
    refuse_more_at_once,
    refuse_other_work,
    weighed,
)
from course_lib.exercises.observe.e2_1 import observe
from course_lib.exercises.values import number_of, shown
from course_lib.text import many, size

_STEPS, _BATCH = 4, 48
_CUT = (
    "`chunk(k)` gives k equal parts, `split(k)` parts of k samples. Cut images and"
    " labels into `num_microbatches` parts, and step after all of them."
)
_SHARE = 5  # 8 micro-batches may need a fifth of the memory of a whole batch


def cases(seed: int) -> Iterator[Case]:
    """Digits in 8 micro-batches by SGD, and in other parts with momentum.

    Expected are the weights of whole batches, and the losses of their parts.
    """
    first, more = 200 * seed, random.Random(seed).choice((2, 3, 6, 12))
    images, labels = baseline.samples(first + _STEPS * _BATCH)
    batches = list(zip(images[first:].split(_BATCH), labels[first:].split(_BATCH)))
    sgd = partial(torch.optim.SGD, lr=0.5)
    moving = partial(torch.optim.SGD, lr=0.2, momentum=0.9)
    for parts, optimizer in ((8, sgd), (more if seed else 4, moving)):
        given = {"model": _network(seed), "optimizer": optimizer, "batches": batches}
        given["parts"] = parts
        yield Case(given, expected=_trained(given))


def _network(seed):
    """A convolutional network with much more to remember than parameters."""
    with baseline.seeded(seed):
        layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()]
        for _ in range(5):
            layers += [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 10))


def judge(case: Case, seen) -> str:
    """Compare weights, then the optimizer, the losses, the work and the memory."""
    [rank] = seen
    weights, losses = case.expected
    _judge_weights(case.given, rank, weights)
    _judge_optimizer(rank)
    _judge_losses(case.given, rank, losses)
    refuse_other_work(rank, rank["baseline"], rank["device"])
    _refuse_other_parts(rank["passes"], _BATCH // case.given["parts"])
    _refuse_memory(case.given, rank)
    return (
        f"{case.given['parts']} micro-batches at a peak of {size(rank['peak'])} in"
        f" place of {size(rank['baseline']['whole'])}"
    )


def _trained(given):
    """The weights after a step for each whole batch, and the losses of its parts."""
    model = copy.deepcopy(given["model"])
    optimizer = given["optimizer"](model.parameters())
    losses = []
    for images, labels in given["batches"]:
        every = cross_entropy(model(images), labels, reduction="none")
        losses.append([part.mean().item() for part in every.chunk(given["parts"])])
        optimizer.zero_grad()
        every.mean().backward()
        optimizer.step()
    return {n: p.detach() for n, p in model.named_parameters()}, losses


def _judge_weights(given, rank, expected):
    off = gap(rank["weights"], expected)
    if off <= CLOSE:
        return
    most = max(rank["passes"], default=0)
    raise Wrong(
        f"after {_STEPS} batches in {given['parts']} micro-batches the weights differ"
        f" from those of whole batches by {off:.2g}, expected at most {CLOSE:g}",
        _why(given, rank),
        clue=apart(rank["weights"], expected),
        also={"steps": rank["steps"], "passes": len(rank["passes"]), "most": most},
    )


def _why(given, rank):
    """What was counted and differs, the most telling first."""
    passes, steps, wanted = rank["passes"], rank["steps"], _BATCH // given["parts"]
    if not passes:
        return "No micro-batch goes through the model on its device."
    if set(passes) != {wanted}:
        most = many(next(n for n in passes if n != wanted), "sample")
        return f"{most} went through the model at once, not {wanted}. {_CUT}"
    if steps != _STEPS:
        return (
            f"The given optimizer took {many(steps, 'step')} for {_STEPS} batches: one"
            " for each, after all of its micro-batches."
        )
    if not any(grad.any() for grad in rank["first"].values()):
        return (
            "At the step all gradients are gone: zero_grad stands between backward and"
            " step. Call it before the loop over micro-batches."
        )
    return (
        f"{_first_step(given, rank)} One zero_grad and one step for each batch, in this"
        " order."
    )


def _first_step(given, rank):
    """What the gradient of the first step is made of, if it is not the right one."""
    model, parts = given["model"], given["parts"]
    pairs = zip(*(part.chunk(parts) for part in given["batches"][0]))
    each = [gradient(model, cross_entropy(model(x), y)) for x, y in pairs]
    if rank["first"].keys() != each[0].keys():
        return "At the first step some parameters have no gradient."
    mean = {name: sum(part[name] for part in each) / parts for name in each[0]}
    off = gap(rank["first"], mean) / largest(mean)
    if not CLOSE < off < float("inf"):
        return "The gradient of the first step is right, later ones are not."
    shares = [1 / parts] * parts
    return weighed(rank["first"], each, shares, off=off, noun="mean losses")


def _judge_optimizer(rank):
    before, after = rank["settings"]
    if after != before:
        raise Wrong(
            "the weights are right, but the optimizer's settings have changed: its"
            f" learning rate is {after[0]['lr']:g} now, expected {before[0]['lr']:g}",
            "A smaller rate hides a gradient that is too large, and stays for the rest"
            " of the training. Leave the rate, divide the losses.",
        )
    if rank["steps"] != _STEPS:
        raise Wrong(
            f"the weights are right, but the given optimizer took {rank['steps']}"
            f" steps, expected {_STEPS}",
            "Call step on `optimizer`, which is given. One of your own knows neither"
            " its learning rate nor its momentum.",
        )


def _judge_losses(given, rank, parts):
    wanted = f"expected a list of {_STEPS} numbers"
    returned = rank["returned"]
    if not isinstance(returned, list | tuple):
        raise Wrong(
            f"the training is right, but it returned {shown(returned)}, {wanted}",
            "Return the mean loss of each batch in a list.",
        )
    if rank["graphs"]:
        raise Wrong(
            f"the training is right, but the losses still carry their graphs, {wanted}",
            "A logged loss with a graph keeps alive all that backward needs. Log"
            " `loss.item()`, or `loss.detach()`.",
        )
    if any(map(torch.is_tensor, returned)):
        raise Wrong(
            "the training is right, but the losses are tensors, expected plain numbers",
            "A tensor of one number stays on its device. `loss.item()` makes a plain"
            " number of it.",
        )
    found = list(map(number_of, returned))
    expected = [sum(losses) / given["parts"] for losses in parts]
    # a number rounded to three digits is fine for a log
    if len(found) == len(expected) and all(
        one is not None and abs(one - other) <= 1e-3 * other
        for one, other in zip(found, expected)
    ):
        return
    raise Wrong(
        f"the training is right, but the logged losses are {_listed(found)},"
        f" expected {_listed(expected)}",
        "One number for each batch, in order: the mean of its micro-batches' losses,"
        " before the step.",
        clue={"off": _differences(found, expected)},
    )


def _differences(found, expected):
    if len(found) != len(expected) or None in found:
        return len(found)
    return [one - other for one, other in zip(found, expected)]


def _listed(numbers):
    listed = ", ".join("?" if n is None else f"{n:.3g}" for n in numbers[:4])
    return f"[{listed}{', …' if len(numbers) > 4 else ''}]"


def _refuse_other_parts(passes, wanted):
    refuse_more_at_once(passes, wanted)
    if passes and min(passes) < wanted:
        raise Wrong(
            f"{many(min(passes), 'sample')} went through the model at once, expected"
            f" {wanted}",
            _CUT,
        )


def _refuse_memory(given, rank):
    # on CUDA the workspaces of libraries may be larger than all activations
    allowed = 1.4 * rank["baseline"]["peak"]
    if given["parts"] == 8:
        allowed = max(allowed, rank["baseline"]["whole"] / _SHARE)
    if rank["peak"] > allowed:
        raise Wrong(
            f"the peak with {given['parts']} micro-batches was {size(rank['peak'])},"
            f" expected at most {size(allowed)}",
            "The weights are right, but the graph of one micro-batch is still there"
            " when the next one starts. Who keeps it? retain_graph=True, or a list or a"
            " sum of losses that still have their graphs.",
            clue={"peak": rank["peak"] / rank["baseline"]["peak"]},
        )


def draw(case: Case, seen):
    """The memory of the training over its time."""
    from course_lib.plots.memory_over_time import plot_memory_over_time

    return plot_memory_over_time(seen[0]["trace"])


EXERCISE = Exercise(
    "2.1",
    observe,
    cases,
    judge,
    proof=f"weights of whole batches after {_STEPS} steps, {{}}",
    draw=draw,
)
