"""Exercise 5.2, decided: Hogwild, several processes that train one model, no lock.

Which updates are lost differs from run to run: hints follow from what the processes
did, and few mistakes have a fingerprint.
"""

import random
import statistics
from collections.abc import Iterator

from course_lib.exercises import baseline
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.judge.e5_1 import (
    failed,
    first_true,
    refuse_one_by_one,
    refuse_other_number,
    refuse_unfinished,
)
from course_lib.exercises.observe.e5_2 import BATCH, LONGEST, observe
from course_lib.exercises.texts import Texts

_TEXTS = Texts("5.2")
_NEAR = 0.2  # of a factor; a lost update has none, and one that counts twice 2


def cases(seed: int) -> Iterator[Case]:
    """Five processes, and three with a last batch that is not full."""
    sizes = ((5, 1024), (3, 180))
    if seed:
        numbers = random.Random(seed)
        last = numbers.choice((5, 14, 25)) + BATCH * numbers.randint(4, 9)
        sizes = ((numbers.choice((2, 6)), 320), (4, last))
    for processes, count in sizes:
        full, rest = divmod(count, BATCH)
        expected = [BATCH] * full + [rest] * (rest > 0)
        given = {"data": baseline.samples(count), "processes": processes}
        yield Case(given, expected=expected)


def judge(case: Case, seen) -> str:
    """Compare what each process trained with, and how much of it is in the model."""
    [rank] = seen
    processes, own = case.given["processes"], rank["trainers"]
    total = processes * len(case.expected)
    refuse_other_number(len(own), processes, what="", hint=_TEXTS.hint("own loop"))
    refuse_unfinished(rank, own, "who uses the model now finds it half trained")
    for number in range(processes):
        _judge_samples(case, rank, number)
    _judge_own(case, rank)
    _judge_gradients(rank, processes)
    _judge_updates(rank, total)
    refuse_one_by_one(rank, processes)
    _refuse_locks(rank, processes)
    return f"{total} of {total} updates of {processes} processes"


def _judge_samples(case, rank, number):
    expected = case.expected
    sizes, read = sum(rank["sizes"][number:][:1], []), rank["samples"][number:][:1]
    found = sorted(read[0].tolist()) if read else []
    fill = {
        "number": number,
        "processes": case.given["processes"],
        "steps": len(sizes) if len(sizes) < LONGEST else f"over {LONGEST}",
        "trained": sum(sizes),
        "different": len(set(found)),
        "batches": len(expected),
        "count": sum(expected),
        "batch": BATCH,
    }
    if sizes != expected:
        raise _TEXTS.wrong("batches", why=_why_batches(case, rank), **fill)
    if found != list(range(sum(expected))):
        raise _TEXTS.wrong("samples", **fill)


def _why_batches(case, rank):
    """The hint for processes that trained with too few, too many or no samples."""
    steps, sizes = rank["gradients"], [set(part) for part in rank["sizes"]]
    count, processes = sum(case.expected), case.given["processes"]
    most = max(map(sum, rank["sizes"]), default=0)
    largest = max(set().union(*sizes), default=0)
    whole = max(steps, default=0) < LONGEST  # or it trained for longer than was noted
    return first_true(
        {
            "no gradient": not any(steps),
            "parent": not any(steps[1:]),
            "last batch": count - BATCH < most < count and sizes[:1] == [{BATCH}],
            "shares": whole and most * processes <= count + BATCH * processes,
            "batch": most == count or largest != BATCH,
            "one epoch": True,
        }
    )


def _judge_own(case, rank):
    """What each process must have for itself: a thread, an order of the samples."""
    processes, threads = case.given["processes"], max(rank["threads"][1:], default=0)
    if threads > 1:
        raise _TEXTS.wrong("threads", processes=processes, threads=threads)
    orders = [part.tolist() for part in rank["samples"]]
    order = max(orders, key=orders.count)
    if (alike := orders.count(order)) > 1:
        stored = order == list(range(sum(case.expected)))
        why = "stored" if stored else "shuffled alike"
        raise _TEXTS.wrong("same order", why=why, alike=alike, processes=processes)


def _judge_gradients(rank, processes):
    """What the gradients are of, and that each process has its own."""
    if any(rank["beside"]):
        raise _TEXTS.wrong("shared gradients", processes=processes)
    if not max(sum(rank["rests"], []), default=0) < 0.05:
        raise _TEXTS.wrong("other loss")
    scale = max(sum(rank["scales"], []), key=_off, default=1)
    if not _off(scale) < 0.05:
        raise _TEXTS.wrong("factor", scale=scale)


def _off(factor):
    return abs(factor - 1)


def _judge_updates(rank, total):
    """How often each gradient is in the weights: once, as SGD puts it there."""
    by_process = [part for part in rank["arrived"]["factors"] if part]
    earlier, rest = rank["arrived"]["earlier"], rank["arrived"]["rest"]
    factors = sum(by_process, [])
    if not factors:
        raise _TEXTS.wrong("nan")
    if max(map(abs, factors)) < 0.05:
        clue = {"earlier": abs(earlier) > 0.05, "shared": rank["shared"]}
        raise _TEXTS.wrong("nothing", why=_why_nothing(rank), clue=clue, total=total)
    if not rest < 0.1:
        raise _TEXTS.wrong("not SGD", total=total)
    backward = min(factors) <= -_NEAR
    stale = 0.5 < earlier < 1.1 * total and not backward
    if stale or all(map(_falls, by_process)):
        first = max(part[0] for part in by_process)
        raise _TEXTS.wrong("never zero", first=first, earlier=earlier)
    far, usual = max(factors, key=_off), statistics.median(factors)
    uniform = max(abs(factor - usual) for factor in factors) < _NEAR * abs(usual)
    lost = sum(abs(factor) < 0.5 for factor in factors)
    # weights that two write at once are of both, and one may seem to count for more
    overwritten = lost > len(factors) / 4 and not backward
    if uniform and _off(usual) > _NEAR or not overwritten and abs(far) > 1 + _NEAR:
        clue = {"usual": usual, "copies": all(rank["private"][1:])}
        raise _TEXTS.wrong("other steps", clue=clue, far=far, rate=baseline.RATE)
    if lost or _off(far) > _NEAR:
        few = 0 < sum(rank["steps"][1:]) < total
        why = "few steps" if few else "copied over"
        raise _TEXTS.wrong("lost", why=why, total=total, lost=max(lost, 1))
    if names := rank["unchanged"]:
        raise _TEXTS.wrong("unchanged", unchanged=len(names), parameter=names[0])


def _falls(factors):
    """What is never set to zero counts in each update that comes after it."""
    first, last = factors[0], factors[-1]
    return _off(first / len(factors)) < _NEAR < first - last


def _why_nothing(rank):
    """The hint for weights that are still those of the start."""
    alone = any(rank["private"][1:])
    return first_true(
        {
            "data replaced": alone and rank["private"] != rank["gradients"],
            "own copy": not rank["shared"],
            "shared too late": alone,
            "no step": not any(rank["steps"]),
            "other model": True,
        }
    )


def _refuse_locks(rank, processes):
    """All updates are there: was each process free to make its own?"""
    reasons = {
        "locked gradients": any(rank["locked"]),
        "locked steps": any(rank["held_lock"] + rank["own_lock"]),
        "never met": not any(rank["met"]),
    }
    if any(reasons.values()):
        raise _TEXTS.wrong(first_true(reasons), processes=processes)


EXERCISE = Exercise(
    "5.2",
    observe,
    cases,
    judge,
    proof="{} are in the model, without a lock",
    failed=failed,
)
