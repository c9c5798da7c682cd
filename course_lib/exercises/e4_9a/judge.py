"""Exercise 4.9a, decided: weights of rank 0, and gradients that are the mean.

4.9b and 4.9c are watched and decided in the same way, with texts of their own.
"""

import functools
import random
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap, largest, numbers_of
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many

_TEXTS = Texts("4.9a")
_ROUNDED = 0.03  # relative error of a gradient in half precision
_NAMED = 3  # tensors, in a sentence
_SGD = functools.partial(torch.optim.SGD, lr=baseline.RATE, momentum=0.9)


def cases(seed: int) -> Iterator[Case]:
    """Yield an optimizer made before wrapping, on two ranks, then one made after it."""
    numbers = random.Random(seed)
    for ranks in (2, 3 + seed % 3):
        size = numbers.randint(5, 9)
        steps = [
            [tuple(part[rank::ranks] for part in batch) for rank in range(ranks)]
            for batch in batches(seed, 3, ranks * size)
        ]
        given = {"make": network, "seed": 17 + 10 * seed, "more": (), "steps": steps}
        given |= {"optimizer": _SGD, "early": ranks == 2}
        yield Case(given, ranks, expected=alone(given))


def batches(seed: int, steps: int, count: int) -> list:
    """Return images and labels of some steps, each of `count` samples."""
    images, labels = baseline.samples(count * (seed + steps))
    return list(zip(images.split(count), labels.split(count)))[-steps:]


def network(seed: int) -> torch.nn.Module:
    """Return the network with BatchNorm; its buffers, too, are of the seed.

    One is in no state dict, and nothing uses it.
    """
    model = baseline.network_with_norm(seed)
    with baseline.seeded(seed):
        for norm in filter(lambda one: hasattr(one, "running_mean"), model):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.num_batches_tracked.fill_(seed)
        model.register_buffer("table", torch.rand(3), persistent=False)
    return model


def alone(given: dict) -> tuple:
    """Return rank 0's state at the start, and for each step of one process that has
    the batches of all ranks the mean gradients and the weights after it.

    A gradient is 0 where no rank has one.
    """
    module = given["make"](given["seed"])
    start = numbers_of(module)
    optimizer, steps = given["optimizer"](module.parameters()), []
    for shares in given["steps"]:
        optimizer.zero_grad()
        for *inputs, labels in shares:
            (cross_entropy(module(*inputs), labels) / len(shares)).backward()
        weights = dict(module.named_parameters())
        gradients = {name: p.grad for name, p in weights.items() if p.grad is not None}
        gradients = {name: grad.clone() for name, grad in gradients.items()}
        optimizer.step()
        after = {name: p.detach().clone() for name, p in weights.items()}
        steps.append((with_zeros(gradients, after), after))
    return start, steps


def with_zeros(gradients: dict, weights: dict) -> dict:
    """Return the gradients of all weights, 0 where there is none."""
    zeros = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    return zeros | gradients


def judge(case: Case, seen) -> str:
    """Look at the start, then at gradients and weights of each step."""
    refuse_training(_TEXTS, case, seen)
    return many(case.world_size, "rank")


def refuse_training(texts: Texts, case: Case, seen) -> None:
    """Refuse what is no model, another start, other gradients, other weights.

    `texts` of 4.9a, 4.9b or 4.9c say so.
    """
    start, steps = case.expected
    _refuse_others(texts, seen)
    count = len(steps[0][1])  # weights
    texts.refuse(
        [
            ("own ddp", [one["built"] for one in seen], 0, 0, 0),
            ("other parameters", [one["kept"] for one in seen], count, count, count),
        ]
    )
    _refuse_start(texts, [one["start"] for one in seen], start)
    for number, (gradients, weights) in enumerate(steps):
        found = [one["steps"][number] for one in seen]
        where = {"step": number + 1}
        texts.refuse([("open", [one["open"] for one in found], 0, 0, 0)], **where)
        filled = [with_zeros(one["gradients"], weights) for one in found]
        also = [[size for _, size in one["sent"]] for one in found]
        _refuse_gradients(texts, filled, gradients, where | {"also": also})
        _refuse_weights(texts, [one["weights"] for one in found], weights, where)


def _refuse_others(texts, seen):
    for rank, one in enumerate(seen):
        where = {"rank": rank, "ranks": len(seen)}
        if "start" not in one:
            returned = one["returned"]
            raise texts.wrong("no model", returned=shown(returned), **where)
        for step in one.get("steps", {}).values():
            if "output" in step:
                raise texts.wrong("no output", returned=shown(step["output"]), **where)


def _refuse_start(texts, states, expected):
    off = [
        [name for name in expected if not _same(state, expected, name)]
        for state in states
    ]
    for rank, names in enumerate(off):
        if names:
            more = len(names) - _NAMED
            told = [*names[:_NAMED], *([f"{more} more"] if more > 0 else [])]
            clue = {"names": off, "apart": [apart(one, expected) for one in states]}
            fill = {"rank": rank, "ranks": len(states), "names": listed(told)}
            raise texts.wrong("start", clue=clue, **fill)


def _same(state, expected, name):
    return name in state and gap({"": state[name]}, {"": expected[name]}) <= CLOSE


def _refuse_gradients(texts, found, expected, where):
    """Compare the gradients of all ranks with the mean, by its largest number."""
    top = largest(expected)
    off = [gap(one, expected) / top for one in found]
    for rank, far in enumerate(off):
        if far > CLOSE:
            fill = {"rank": rank, "ranks": len(found), "most": 100 * CLOSE} | where
            if far < _ROUNDED:
                raise texts.wrong("rounded", off=100 * far, **fill)
            clue = {"apart": [apart(one, expected) for one in found]}
            raise texts.wrong("gradients", clue=clue, off=100 * far, **fill)


def _refuse_weights(texts, found, expected, where):
    """Compare the weights of all ranks with those of one process."""
    off = [gap(one, expected) for one in found]
    for rank, far in enumerate(off):
        if far > CLOSE:
            clue = {"apart": [apart(one, expected) for one in found]}
            fill = {"rank": rank, "ranks": len(found), "close": CLOSE} | where
            raise texts.wrong("weights", clue=clue, off=far, **fill)
