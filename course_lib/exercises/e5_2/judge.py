"""Exercise 5.2, decided: Hogwild, several processes that train one model, no lock.

Which updates are lost differs from run to run, and what the processes did does not: by
that known mistakes are found.
"""

import random
import statistics
from collections import Counter
from collections.abc import Iterator

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.e5_1.judge import processes_of
from course_lib.exercises.e5_2.observe import BATCH, LONGEST
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts

_TEXTS = Texts("5.2")
_TELLING = 10  # gradients that tell whether they are all of private copies
_NEAR = 0.2  # of a factor; a lost update has none, and one that counts twice 2


def cases(seed: int) -> Iterator[Case]:
    """Yield five processes, and three with a last batch that is not full."""
    sizes = ((5, 1024), (3, 180))
    if seed:
        numbers = random.Random(seed)
        last = numbers.choice((5, 14, 25)) + BATCH * numbers.randint(4, 9)
        sizes = ((numbers.choice((2, 6)), 480), (4, last))
    for processes, count in sizes:
        expected = [min(BATCH, count - first) for first in range(0, count, BATCH)]
        given = {"data": baseline.samples(count), "processes": processes}
        yield Case(given, expected=expected)


def judge(case: Case, seen) -> str:
    """Compare what each process trained with, and how much of it is in the model."""
    [rank] = seen
    processes = case.given["processes"]
    processes_of(rank, processes, _TEXTS)
    for number in range(processes):
        _judge_samples(case, rank, number)
    _judge_own(rank, processes)
    total = processes * len(case.expected)
    _judge_updates(rank, total)
    if any(rank["locked"]) or not any(rank["met"]):
        raise _TEXTS.wrong("locked", processes=processes)
    return f"{total} of {total} updates of {processes} processes"


def _judge_samples(case, rank, number):
    expected = case.expected
    batches = sum(rank["samples"][number:][:1], [])
    sizes, found = list(map(len, batches)), sum(batches, [])
    if sizes != expected or sorted(found) != list(range(1, 1 + sum(expected))):
        clue = {"steps": len(sizes), "trained": len(found)}
        fill = {"number": number, "processes": case.given["processes"]}
        fill |= {"different": len(set(found)), "batch": BATCH}
        fill |= {"batches": len(expected), "count": sum(expected)}
        fill["steps"] = f"over {LONGEST}" if len(sizes) == LONGEST else len(sizes)
        raise _TEXTS.wrong("batches", clue=clue, **clue | fill)


def _judge_own(rank, processes):
    """What each process must have for itself: a thread, an order, gradients."""
    threads = max(rank["threads"][1:], default=0)
    if threads > 1:
        raise _TEXTS.wrong("threads", processes=processes, threads=threads)
    orders = [sum(batches, []) for batches in rank["samples"]]
    order = max(orders, key=orders.count)
    if (alike := orders.count(order)) > 1:
        clue = {"stored": order == sorted(order)}
        raise _TEXTS.wrong("same order", clue=clue, alike=alike, processes=processes)
    if any(rank["beside"]):
        raise _TEXTS.wrong("shared gradients", processes=processes)
    if not max(rank["off"][1:], default=0) < 0.05:
        raise _TEXTS.wrong("other loss")


def _judge_updates(rank, total):
    """How often each gradient is in the weights: once, as SGD puts it there."""
    earlier, *factors = rank["arrived"]["factors"] or [0.0, 1.0]
    steps, private = sum(rank["steps"][1:]), rank["private"]
    if max(map(abs, [earlier, *factors])) < 0.05:
        alone = any(private[1:]) + (private == rank["gradients"])
        clue = {"shared": rank["shared"], "alone": alone, "steps": steps > 0}
        raise _TEXTS.wrong("nothing", clue=clue, total=total)
    if not rank["arrived"]["rest"] < 0.1:
        clue = {"numbers": bool(rank["arrived"]["factors"])}
        raise _TEXTS.wrong("not SGD", clue=clue, total=total)
    # the model came with a gradient, which belongs into no update
    far, usual = max(1 + earlier, *factors, key=_off), statistics.median(factors)
    uniform = max(abs(factor - usual) for factor in factors) < _NEAR * abs(usual)
    lost = sum(abs(factor) < 0.5 for factor in factors)
    # weights that two write at once are of both, and one may seem to count for more
    overwritten = lost > len(factors) / 4 and min(factors) > -_NEAR
    if uniform and _off(usual) > _NEAR or not overwritten and abs(far) > 1 + _NEAR:
        clue = {"usual": usual, "copies": all(private[1:])}
        raise _TEXTS.wrong("other steps", clue=clue, far=far, rate=baseline.RATE)
    if lost or _off(far) > _NEAR:
        clue = {"steps": steps / total}
        raise _TEXTS.wrong("lost", clue=clue, total=total, lost=max(lost, 1))
    if names := rank["unchanged"]:
        raise _TEXTS.wrong("unchanged", unchanged=len(names), parameter=names[0])
    _judge_copies(rank, total)


def _judge_copies(rank, total):
    """Whether each update was written to memory that all share, and of what weights."""
    writers = Counter(place for row in rank["memory"] for place in set(row))
    direct = sum(writers[place] > 1 for row in rank["memory"] for place in row)
    if direct < total:
        clue = {"direct": direct / total}
        raise _TEXTS.wrong("late", clue=clue, total=total, direct=direct)
    late, apart = sum(rank["late"][1:]), sum(rank["apart"][1:])
    # of a copy that is read anew for each, some are apart: others write meanwhile
    if late >= _TELLING and apart == late:
        raise _TEXTS.wrong("apart", total=total)


def _off(factor):
    return abs(factor - 1)


def failed(case: Case, wrong: Failed) -> str:
    """Give a crash its hint: threads that share gradients may come to it."""
    if wrong.error.kind == "killed":
        wrong.hint = _TEXTS.hint("killed")
    raise wrong
