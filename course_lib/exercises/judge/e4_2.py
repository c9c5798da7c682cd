"""Exercise 4.2, decided: a training with DDP that equals one plain process."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import (
    CLOSE,
    SMALL,
    agree,
    apart,
    complete,
    gap,
    steps_of,
)
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.observe.e4_2 import observe
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown

_TEXTS = Texts("4.2")
_BATCH = 64
_FIRST = "1.weight"  # the weight whose first steps are observed
_DRAWN = 2, 4  # steps
_LEAST = 0.45  # of the bytes of gradients, which may be compressed
_TWICE = 1.8  # times these bytes: they travelled once more
_SAME = 0.01  # relative difference of two steps


def cases(seed: int) -> Iterator[Case]:
    """Digits in whole batches on 2 ranks, and with a smaller last batch on 4.

    Expected are the weights of one process, and what each rank does for them.
    """
    numbers = random.Random(seed)
    sizes = (2, 320, 3), (4, 100, 4)
    if seed:
        sizes = [
            (of, 4 * numbers.randint(17, 60), numbers.randint(2, 4)) for of in (2, 4)
        ]
    for ranks, count, epochs in sizes:
        images, labels = baseline.samples(count + 40 * seed)
        data = images[-count:], labels[-count:]
        given = {"data": data, "epochs": epochs, "seed": 10 * seed}
        yield Case(given, ranks, trace=True, expected=_alone(given, ranks))


def _alone(given, ranks):
    """What one process ends with, and a rank's passes and order on the way."""
    data, count = given["data"], len(given["data"][0])
    begins = [
        baseline.network(given["seed"] + rank).state_dict() for rank in range(ranks)
    ]
    batches = list(
        baseline.batches(data, baseline.shuffled, batch=_BATCH, epochs=given["epochs"])
    )
    steps = [baseline.weights_after(batches[:n], start=begins[0]) for n in (1, 2)]
    return {
        "weights": baseline.weights_after(batches, start=begins[0]),
        "starts": [state[_FIRST] for state in (begins[0], *steps)],
        "begins": begins,
        "passes": [len(labels) // ranks for _, labels in batches],
        "order": [
            baseline.shuffled(count, epoch)[::ranks].tolist()
            for epoch in range(given["epochs"])
        ],
        "bytes": len(batches) * baseline.size(baseline.network()),
    }


def judge(case: Case, seen) -> str:
    """Compare weights, then the work of each rank, what travelled, and the end."""
    ranks, expected = len(seen), case.expected
    least = _LEAST if complete(seen.trace) else 0  # what is cut proves nothing
    traffic = _traffic(seen.trace, ranks)
    seen = [one | sent | {"least": least} for one, sent in zip(seen, traffic)]
    states = [_state(rank["returned"]) for rank in seen]
    why = _why_apart(expected, seen, states)
    found = agree(states, expected["weights"], hint=_TEXTS.hint(why))
    off = gap(found, expected["weights"])
    if off > CLOSE:
        told = set(map(str, seen[0]["told"]))
        raise _TEXTS.wrong(
            "other weights",
            hint=_why(expected, seen, found),
            clue=apart(found, expected["weights"]),
            also={
                "one number": len(seen[0]["told"]) > 1 and len(told) == 1,
                "twice": seen[0]["bytes"] > _TWICE * expected["bytes"],
            },
            **{"ranks": ranks, "off": off, "close": CLOSE},
        )
    costs = [_cost(expected, rank) for rank in seen]
    for rank, facts in enumerate(costs):
        for fact, of_all in zip(facts, zip(*costs)):
            if fact.differs:
                clue = {fact.did: [one.found for one in of_all]}
                fill = {"rank": rank, "ranks": ranks, "told": fact.told}
                wrong = _TEXTS.wrong("cost", why="right weights", clue=clue, **fill)
                wrong.hint += " " + _TEXTS.hint(fact.advice)
                raise wrong
    steps, sent = len(expected["passes"]), seen[0]["reduces"]
    return f"{steps} steps" + (f" with {sent} all-reduces" if sent else "")


def _traffic(trace, ranks):
    """For each rank: bytes that went to collectives but broadcasts, and all-reduces.

    Small all-reduces are not counted, for they cost next to nothing.
    """
    sent = [e for e in trace if e.kind == "communicate" and e.name != "broadcast"]
    for rank in range(ranks):
        own = [(e.name, e.bytes) for e in sent if e.rank == rank]
        reduces = [name for name, size in own if name == "all_reduce" and size > SMALL]
        yield {"bytes": sum(size for _, size in own), "reduces": len(reduces)}


def _state(returned):
    """What was returned if it is a state dict, else the text of what it is."""
    named = isinstance(returned, dict) and all(isinstance(n, str) for n in returned)
    if named and returned and all(map(torch.is_tensor, returned.values())):
        return returned
    return shown(returned)


class _Fact(NamedTuple):
    """What a rank did, the number that is expected, and the name of a hint."""

    did: str
    found: int
    expected: int
    times: tuple[float, float]  # it may be least and most
    advice: str

    @property
    def differs(self):
        least, most = self.times
        return not least * self.expected <= self.found <= most * self.expected

    @property
    def told(self):
        return f"{self.did.format(self.found)}, expected {self.expected:,}"


def _cost(expected, rank):
    """Work, bytes and the end; with margins, for an answer may try a batch."""
    passes, wanted = rank["passes"], expected["passes"]
    most, once, steps = max(passes, default=0), max(wanted), len(wanted)
    sent, size, few = rank["bytes"], expected["bytes"], (rank["least"], _TWICE)
    facts = (
        ("trained with {:,} samples", sum(passes), sum(wanted), (1, 1.5), "share"),
        ("put {:,} samples through the model at once", most, once, (0, 1), "divide"),
        ("took {:,} steps", rank["moves"], steps, (1, 1.5), "one step"),
        ("handed {:,} bytes of gradients to collectives", sent, size, few, "wrap"),
        ("made {:,} all-reduces", rank["reduces"], steps, (0, 1.5), "pack"),
        ("returned in {} process group", int(not rank["left"]), 0, (1, 1), "leave"),
    )
    return [_Fact(*fact) for fact in facts]


def _why_apart(expected, seen, states):
    """The name of a hint for ranks that end with different weights."""
    pairs = zip(states, expected["begins"])
    if all(isinstance(s, dict) and gap(s, b) < CLOSE for s, b in pairs):
        return "before"
    sent = seen[0]["bytes"] >= _LEAST * expected["bytes"]
    return "other starts" if sent else "none travelled"


def _why(expected, seen, found):
    """The hint for ranks that agree with each other, but took other steps."""
    first = seen[0]
    if gap(found, expected["begins"][0]) < CLOSE:
        return _TEXTS.hint("before" if first["moves"] > 1 else "no step")
    for fact in (*_cost(expected, first)[:-2], *_order(expected["order"], seen)):
        if fact.differs:
            told = _TEXTS.hint("rank 0", told=fact.told)
            return f"{told} {_TEXTS.hint(fact.advice)}"
    why, factor = _why_steps(first["starts"], expected["starts"])
    return _TEXTS.hint(why, factor=factor)


def _order(order, seen):
    """Facts on the samples that ranks 0 and 1 read, if they asked the data for them."""
    length = len(order[0])
    # longer by those that were only looked at
    read = [one["read"][-length * len(order) :] for one in seen[:2]]
    if any(len(one) < length * len(order) for one in read):
        return []
    first, second = (
        [one[start:][:length] for start in range(0, len(one), length)] for one in read
    )
    both = sum(len(set(one) & set(other)) for one, other in zip(first, second))
    stored = sum(one == sorted(one) for one in first)
    repeated = sum(one == other for one, other in zip(first, first[1:]))
    other = sum(one != wanted for one, wanted in zip(first, order))
    facts = (
        ("read {:,} samples that rank 1 read, too", both, "one seed"),
        ("read {} epochs as stored", stored, "shuffle"),
        ("repeated the order in {} epochs", repeated, "set epoch"),
        ("read {} epochs in another order", other, "epoch number"),
    )
    return [_Fact(did, found, 0, (1, 1), advice) for did, found, advice in facts]


def _why_steps(starts, expected):
    """The name of a hint for right batches, and a factor: the first step that differs.

    The factor is that of the first step.
    """
    if any(start.shape != expected[0].shape for start in starts):
        return "plain", 1
    steps, rights = (
        [after - before for before, after in zip(one, one[1:])]
        for one in (starts, expected)
    )
    for number, (step, right) in enumerate(zip(steps, rights)):
        if (step - right).norm() <= _SAME * right.norm():
            continue
        factor = (step * right).sum() / (right * right).sum()
        longer = (step - factor * right).norm() <= _SAME * step.norm()
        return "second step" if number else "factor" if longer else "direction", factor
    return "later steps", 1


def failed(case: Case, wrong: Failed) -> str:
    """Say what a rank waits for, or why its connection is lost."""
    if wrong.error.kind in (*STUCK, "lost"):
        wrong.hint = _TEXTS.hint("all train")
    raise wrong


def draw(case: Case, seen):
    """Draw two steps of the first case, if there are as many."""
    from course_lib.plots.timeline import plot_timeline

    trace = steps_of(seen.trace, *_DRAWN)
    return plot_timeline(trace) if trace else None


EXERCISE = Exercise(
    "4.2",
    observe,
    cases,
    judge,
    proof="2 and 4 ranks share the samples and have the weights of one process after"
    " {}",
    draw=draw,
    failed=failed,
)
