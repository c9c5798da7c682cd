"""Exercise 2.2: the exact gradient from micro-batches of any sizes."""

from functools import partial

from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt
from course_lib.exercises.compare import CLOSE, grads_of, largest, mistaken, state_of
from course_lib.exercises.stages.stage02.observer import (
    Observer,
    judge_gradient,
    left_by,
    one_gpu,
    refuse_waste,
    why_failed,
)

# the second split tells more mistakes apart: its first is neither largest nor last
SPLITS = ((8, 8, 8, 6), (5, 1, 20, 8, 3), (16,))

_WIPED = "Only the last micro-batch counts: zero_grad in the loop wipes out the others."
_ALIKE = (
    "You count all micro-batches as large as the first, or the largest. Add up the"
    " real sizes."
)
_AGAIN = (
    "`.grad` is divided after every micro-batch, so what is in it already is divided"
    " again and again. Divide once, after the loop."
)
_LEFT_OUT = "The last micro-batch is left out, and its samples with it."
# hints, and the weight of micro-batch i of n samples that makes the mistake
_MISTAKES = (
    (
        "Every micro-batch counts the same, 1/k, so a sample of a short one counts"
        " more. Weigh each loss by its share of the samples.",
        lambda n, i: 1 / len(n),
    ),
    (
        "The mean losses are added up with nothing to divide them. Weigh each one"
        " by its share of the samples.",
        lambda n, i: 1,
    ),
    (
        "Each loss is divided by the number of all samples, but it is a mean"
        " already: multiply by the number of its own samples first.",
        lambda n, i: 1 / sum(n),
    ),
    (
        "This is the gradient of a sum over samples. Divide by their number.",
        lambda n, i: n[i],
    ),
    (_ALIKE, lambda n, i: n[i] / (len(n) * n[0])),
    (_ALIKE, lambda n, i: n[i] / (len(n) * max(n))),
    (
        "You divide by 30, which is right for one case only. Add up the sizes.",
        lambda n, i: n[i] / 30,
    ),
    (
        "Each loss is weighed by its share and then divided by k, too. The shares"
        " add up to 1: no more to divide.",
        lambda n, i: n[i] / sum(n) / len(n),
    ),
    (
        "A sum over samples is weighed once more by its size. Either mean × size,"
        " or reduction='sum', then divide by all samples.",
        lambda n, i: n[i] ** 2 / sum(n),
    ),
    (
        "The number of all samples is still growing while you divide by it. Count"
        " them before the loop.",
        lambda n, i: n[i] / sum(n[: i + 1]),
    ),
    (
        "Each mean loss is divided by its own number of samples. It is a mean already:"
        " multiply by that number, and divide by all samples.",
        lambda n, i: 1 / n[i],
    ),
    (
        "The share is upside down: a micro-batch of n samples out of N has the share"
        " n/N.",
        lambda n, i: sum(n) / n[i],
    ),
    (
        "A sum over samples is divided by the number of micro-batches. Divide by the"
        " number of all samples.",
        lambda n, i: n[i] / len(n),
    ),
    (
        "numel() counts pixels. Count samples: len(labels).",
        lambda n, i: n[i] / (64 * sum(n)),
    ),
    (_AGAIN, lambda n, i: n[i] * sum(n) ** (i - len(n))),
    (_AGAIN, lambda n, i: len(n) ** (i - len(n))),
    (_LEFT_OUT, lambda n, i: (i != len(n) - 1) * n[i] / max(1, sum(n) - n[-1])),
    (_LEFT_OUT, lambda n, i: (i != len(n) - 1) * n[i] / sum(n)),
    (_LEFT_OUT, lambda n, i: (i != len(n) - 1) / max(1, len(n) - 1)),
    (_WIPED, lambda n, i: (i == len(n) - 1) * n[i] / sum(n)),
    (_WIPED, lambda n, i: i == len(n) - 1),
    (_WIPED, lambda n, i: (i == len(n) - 1) / len(n)),
    (
        "Only the last micro-batch is weighed by its size. Weigh all of them.",
        lambda n, i: n[i] / sum(n) if i == len(n) - 1 else 1 / len(n),
    ),
)


@baseline.settled()
def check_uneven(attempt: Attempt) -> str:
    """Compare the gradient with that of the whole batch, for several splits."""
    for sizes in SPLITS:
        data = baseline.samples(sum(sizes))
        [seen] = attempt(_gradient, data, sizes, world_size=1, why=why_failed)
        where = f"micro-batches of {', '.join(map(str, sizes))}"
        why = partial(_why, data, sizes)
        judge_gradient(seen, gradient(data, sizes), where=where, why=why)
        limits = {"size": max(sizes), "whole": sum(sizes), "passes": len(sizes)}
        refuse_waste(seen["counts"], **limits)
    return "the gradient of the whole batch for 8 + 8 + 8 + 6 samples and two others"


def _gradient(rank, world_size, answer, /, *given):
    data, sizes = given
    device, _ = one_gpu()
    model = baseline.network().to(device)
    start = state_of(model)
    observer = Observer(model)
    images, labels = (part.to(device).split(sizes) for part in data)
    answer(model, list(zip(images, labels)))
    return left_by(model, start) | {"counts": observer.counts}


def gradient(data, sizes, *, weight=None):
    """The gradient of all samples; `weight(i)` weighs the mean loss of micro-batch i.

    Without `weight` it is that of the mean over the whole batch.
    """
    model = baseline.network()
    if weight is None:
        cross_entropy(model(data[0]), data[1]).backward()
    else:
        for i, (x, y) in enumerate(zip(*(part.split(sizes) for part in data))):
            (weight(i) * cross_entropy(model(x), y)).backward()
    return grads_of(model)


def _why(data, sizes, found):
    weights = partial(gradient, data, sizes)
    close = CLOSE * largest(found)
    if close == 0:
        return (
            "All gradients are 0. Is zero_grad called after backward, or a weight"
            " rounded down to 0 by `//`?"
        )
    known = [(hint, {"weight": partial(weight, sizes)}) for hint, weight in _MISTAKES]
    return mistaken(found, known, weights, close=close) or (
        "The mean over all samples is the sum of the micro-batches' mean losses, each"
        " times its own number of samples, divided by the number of all samples."
    )
