"""Exercise 4.4, decided: accumulated gradients that travel once in a step."""

import functools
import random
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import (
    CLOSE,
    SMALL,
    apart,
    draw_steps,
    gap,
    largest,
    state_of,
)
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.text import listed, many

_TEXTS = Texts("4.4")
_STEPS = 3
_ROUNDED = 0.03  # relative error of a gradient in half precision
_SGD = functools.partial(torch.optim.SGD, lr=baseline.RATE)
# its steps are no sum over ranks; a small `eps` would make much of rounding
_ADAM = functools.partial(torch.optim.Adam, lr=0.01, eps=1e-3)
# ranks, micro-batches, samples in each
_SIZES = ((2, 6, 5), (3, 4, 4), (5, 2, 3))


def cases(seed: int) -> Iterator[Case]:
    """Yield SGD twice, then Adam: it tells a mean of gradients from a mean of weights.

    Expected are the weights of one process after each step, and the step's gradients.
    """
    sizes = _SIZES if not seed else _drawn(random.Random(seed))
    for (ranks, parts, size), make in zip(sizes, (_SGD, _SGD, _ADAM)):
        count = ranks * parts * size
        images, labels = baseline.samples(count * (seed + _STEPS))
        batches = list(zip(images.split(count), labels.split(count)))[-_STEPS:]
        given = {"batches": batches, "parts": parts, "optimizer": make}
        yield Case(given, ranks, trace=True, expected=list(_alone(batches, make)))


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 3):
        yield ranks, numbers.choice((3, 4, 5, 6)), numbers.randint(2, 5)


def _alone(batches, make):
    """The weights of one process after each batch, and the gradients of it."""
    model = baseline.network()
    optimizer = make(model.parameters())
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        yield state_of(model), gradients


def judge(case: Case, seen) -> str:
    """Look at each step: updates, what travelled and when, weights; then the cost."""
    parts, ranks = case.given["parts"], case.world_size
    most = len(case.given["batches"][0][0]) // (ranks * parts)
    for number, (expected, gradients) in enumerate(case.expected):
        steps = [one["steps"][number] for one in seen]
        size = sum(weight.nbytes for weight in expected.values())
        where = {"step": number + 1, "ranks": ranks, "size": size}
        updates = [step["updates"] for step in steps]
        _TEXTS.refuse([("updates", updates, 1, 1, 1)], **where)
        for rank, step in enumerate(steps):
            _refuse_sent(step["sent"], where | {"rank": rank})
        _refuse_weights([step["weights"] for step in steps], expected, where)
        _refuse_rounded([step["gradients"] for step in steps], gradients, where)
        facts = [("emptied", [step["changed"] for step in steps], 0, 0, 0)]
        _TEXTS.refuse([*facts, *_costs(steps, most, size)], **where)
    return f"{parts} micro-batches on {ranks} ranks"


def _refuse_sent(sent, where):
    """Refuse all but one all-reduce of all gradients, after the last forward pass."""
    # by the number of forward passes that came before
    sent = [
        [size for name, size in calls if name == "all_reduce" and size > SMALL]
        for calls in sent or [[]]
    ]
    *before, last = sent
    if any(before) or len(last) != 1 or not 0.9 < last[0] / where["size"] < 1.1:
        fill = {"sent": listed(map(sum, sent)), "passes": len(before)}
        calls = many(sum(map(len, sent)), "call")
        raise _TEXTS.wrong("sent", clue={"sent": sent}, calls=calls, **fill, **where)


def _refuse_weights(weights, expected, where):
    """Compare the weights of all ranks after a step with those of one process."""
    off = max(gap(one, expected) for one in weights)
    if off > CLOSE:
        different = [apart(one, expected) for one in weights]
        clue = {"step": where["step"], "apart": different}
        raise _TEXTS.wrong("other weights", clue=clue, off=off, close=CLOSE, **where)


def _refuse_rounded(found, expected, where):
    """Compare gradients by which the weights are right; a short step hides rounding.

    Those that are far off are none of a rounding: Adam's weights tell what they are.
    """
    off = max(gap(one, expected) for one in found) / largest(expected)
    if CLOSE < off < _ROUNDED:
        raise _TEXTS.wrong("rounded", off=100 * off, most=100 * CLOSE, **where)


def _costs(steps, most, size):
    """Memory, work and bytes of each rank; collectives may carry a little more."""
    moved = [sum(count for calls in s["sent"] for _, count in calls) for s in steps]
    work = steps[0]["baseline"]["flops"]
    return (
        ("whole batch", [max(s["passes"], default=0) for s in steps], most, 0, most),
        ("late backward", [s["graphs"] for s in steps], 1, 0, 1),
        ("work", [s["flops"] for s in steps], work, 0.6 * work, 1.6 * work),
        ("more sent", moved, size, 0, 1.25 * size),
    )


def draw(case: Case, seen):
    """Draw the timeline of the second and third step."""
    return draw_steps(seen.trace, 0, 2)
