"""Exercise 4.4, decided: accumulated gradients that travel once in a step."""

import functools
import random
from collections.abc import Iterator
from math import inf, isfinite

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, SMALL, apart, gap, largest, steps_of
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.judge.e2_2 import gradient, refuse_other_work, weighed
from course_lib.exercises.observe.e4_4 import observe
from course_lib.exercises.texts import Texts
from course_lib.text import listed, many

_TEXTS = Texts("4.4")
_STEPS = 3
_MOST = 1.25  # of the bytes of gradients, for all collectives
_SGD = functools.partial(torch.optim.SGD, lr=baseline.RATE)
# its steps are no sum over ranks; a small `eps` would make much of rounding
_ADAM = functools.partial(torch.optim.Adam, lr=0.01, eps=1e-3)
# ranks, micro-batches, samples in each
_SIZES = ((2, 6, 5), (3, 4, 4), (5, 2, 3))


def cases(seed: int) -> Iterator[Case]:
    """SGD twice, then Adam: it tells a mean of gradients from a mean of weights.

    Expected are, for each step, the gradient of each micro-batch's mean loss, rank by
    rank, and the weights after the step of one process.
    """
    sizes = _SIZES if not seed else _drawn(random.Random(seed))
    for (ranks, parts, size), make in zip(sizes, (_SGD, _SGD, _ADAM)):
        count = ranks * parts * size
        images, labels = baseline.samples(count * (seed + _STEPS))
        batches = list(zip(images.split(count), labels.split(count)))[-_STEPS:]
        given = {"batches": batches, "parts": parts, "optimizer": make}
        expected = list(_alone(batches, make, ranks=ranks, parts=parts))
        yield Case(given, world_size=ranks, trace=True, expected=expected)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 3):
        yield ranks, numbers.choice((3, 4, 5, 6)), numbers.randint(2, 5)


def _alone(batches, make, *, ranks, parts):
    """One process: pairs of each micro-batch's gradient and the weights after it."""
    model = baseline.network()
    optimizer = make(model.parameters())
    for batch in batches:
        each = [
            gradient(model, cross_entropy(model(images), labels))
            for rank in range(ranks)
            for images, labels in zip(*(p[rank::ranks].chunk(parts) for p in batch))
        ]
        for name, mean in _mean(each).items():
            model.get_parameter(name).grad = mean
        optimizer.step()
        yield each, {n: p.detach().clone() for n, p in model.named_parameters()}


def _mean(each):
    return {name: sum(one[name] for one in each) / len(each) for name in each[0]}


def judge(case: Case, seen) -> str:
    """Count updates and all-reduces, compare the weights, then look at the cost."""
    parts, ranks = case.given["parts"], case.world_size
    facts = {
        "ranks": ranks,
        "size": sum(value.nbytes for value in case.expected[0][-1].values()),
        "most": len(case.given["batches"][0][0]) // (ranks * parts),
    }
    turns = [
        (one["steps"][number], facts | {"step": number + 1, "rank": rank})
        for number in range(_STEPS)
        for rank, one in enumerate(seen)
    ]
    for step, where in turns:
        if step["updates"] != 1:
            clue, updates = {"updates": step["updates"]}, many(step["updates"], "step")
            raise _TEXTS.wrong("updates", clue=clue, updates=updates, **where)
    for step, where in turns:
        _refuse_sent(step, where)
    for number in range(_STEPS):
        _refuse_weights([one["steps"][number] for one in seen], case, number)
    for step, where in turns:
        _refuse_memory(step, where)
        refuse_other_work(step, step["baseline"], seen[where["rank"]]["device"])
        moved = sum(count for calls in step["sent"] for _, count in calls)
        if moved > _MOST * where["size"]:
            raise _TEXTS.wrong("more sent", moved=moved, **where)
    return f"{parts} micro-batches on {ranks} ranks"


def _refuse_sent(step, where):
    """Refuse all but one all-reduce of all gradients, after the last forward pass."""
    # by the number of forward passes that came before
    sent = [
        [size for name, size in calls if name == "all_reduce" and size > SMALL]
        for calls in step["sent"]
    ]
    every, after = sum(sent, []), [i for i, calls in enumerate(sent) if calls]
    passes, ddp = len(sent) - 1, step["ddp"]
    where = where | {
        "calls": many(len(every), "all-reduce"),
        "sent": sum(every),
        "after": listed(after) if after else "none",
        "passes": passes,
    }
    if len(every) != 1 or not 0.9 < every[0] / where["size"] < 1.1:
        why = _why_sent(after, passes, ddp)
        raise _TEXTS.wrong("sent", why=why, clue={"sent": sent}, also=ddp, **where)
    if after != [passes]:
        raise _TEXTS.wrong("sent early", **where)


def _why_sent(after, passes, ddp):
    """The name of a hint for all-reduces that follow these forward passes, from 1."""
    if passes < 1:
        return "no pass"
    if not ddp["forward"]:
        return "without DDP"
    if not after:
        return "never sent"
    if after == [passes]:
        return "let DDP send"
    return "no with" if ddp["no_sync"] and not ddp["quiet"] else "sent often"


def _refuse_weights(found, case, number):
    """Compare the weights of all ranks after a step with those of one process."""
    each, expected = case.expected[number]
    weights = [step["weights"] for step in found]
    gaps = between = [gap(one, expected) for one in weights]
    if max(gaps) <= CLOSE:
        return
    if isfinite(max(gaps)):
        between = [gap(one, weights[0]) for one in weights]
    rank = between.index(max(between))
    grads, right = found[rank]["gradient"], _mean(each)
    off = gap(grads, right) / largest(right)
    why, counts = "right gradient" if off <= CLOSE else "no gradient", ""
    if CLOSE < off < inf:
        why, shares = "whose gradient", [1 / len(each)] * len(each)
        counts = " " + weighed(grads, each, shares, off=off, noun="mean losses")
    wrong = _TEXTS.wrong(
        "ranks differ" if CLOSE < max(between) < inf else "other weights",
        why=why,
        clue={"step": number, "apart": [apart(one, expected) for one in weights]},
        **{"step": number + 1, "rank": rank, "ranks": len(found), "close": CLOSE},
        **{"off": max(gaps), "between": max(between), "parts": case.given["parts"]},
    )
    wrong.hint += counts
    raise wrong


def _refuse_memory(step, where):
    samples, graphs = max(step["passes"], default=0), step["graphs"]
    if samples > where["most"]:
        raise _TEXTS.wrong("whole batch", samples=samples, **where)
    if graphs > 1:
        raise _TEXTS.wrong("late backward", graphs=graphs, **where)


def draw(case: Case, seen):
    """The timeline of the second and third step, or of all that was recorded."""
    from course_lib.plots.timeline import plot_timeline

    trace = steps_of(seen.trace, 0, 2) or seen.trace
    return plot_timeline(trace) if trace else None


EXERCISE = Exercise(
    "4.4",
    observe,
    cases,
    judge,
    proof="the gradients travel once in a step of {}, and the weights are those of"
    " whole batches, by SGD and by Adam",
    draw=draw,
)
