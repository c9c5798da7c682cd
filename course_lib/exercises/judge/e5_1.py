"""Exercise 5.1, decided: several processes count, and no count is lost.

How many are lost differs from run to run, and what the processes did does not: most
hints say what follows from that, and few mistakes have a fingerprint.
"""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e5_1 import observe
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.stacks import Frame, place

_TEXTS = Texts("5.1")
# all begin with the same label, so that all want to change the same number
_SHARES = (
    ([3, 3, 3, 1, 4, 1, 5], [3, 3, 3, 3, 9, 2, 6, 5, 3], [3, 3, 3, 5, 8], [3, 3, 3]),
    ([7] * 300, [7, 7, 0, 7, 2], [7, 7, 7, 0, 7, 1, 8]),
)
_WORK = ("writes", "stores", "sent", "files")


def cases(seed: int) -> Iterator[Case]:
    """Four shares, and three of which one is long: bytes are too small for it."""
    for shares in _SHARES if not seed else _drawn(random.Random(seed)):
        labels = torch.tensor([label for share in shares for label in share])
        expected = labels.bincount(minlength=10).tolist()
        yield Case({"shares": list(map(list, shares))}, expected=expected)


def _drawn(numbers):
    def shares(count, *longer):
        first = numbers.randrange(10)
        lengths = [*longer, *(numbers.randint(2, 6) for _ in range(count))]
        return [
            [first] * (length // 2 + 1) + numbers.choices(range(10), k=length // 2)
            for length in lengths
        ]

    return shares(numbers.choice((3, 5))), shares(2, 600)


def judge(case: Case, seen) -> str:
    """Compare the counts; each write was held until others had read what it read."""
    [rank] = seen
    shares, expected = len(case.given["shares"]), case.expected
    found = _counts(rank["returned"])
    if found is None or len(found) != 10:
        raise _TEXTS.wrong("no counts", returned=shown(rank["returned"]))
    own = processes_of(rank)
    hint = _TEXTS.hint("own share")
    refuse_other_number(len(own), shares, what=f" for {shares} shares", hint=hint)
    refuse_unfinished(rank, own, "the counts are read too early")
    if found.tolist() != expected:
        raise _miscounted(expected, rank, found.tolist())
    idle = [n for n in own if not any(rank[name][n : n + 1] != [0] for name in _WORK)]
    if idle:
        raise _TEXTS.wrong("idle", idle=len(idle), shares=shares)
    refuse_one_by_one(rank, len(own))
    if found.dtype != torch.int64:
        raise wrong_type(found)
    return f"{min(rank['most'], shares)} processes at a time for {sum(expected)} labels"


def _counts(value):
    """The returned numbers as a tensor of one dimension, or None."""
    try:
        found = torch.as_tensor(value).squeeze()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    finite = found.dim() == 1 and not found.is_complex() and found.isfinite().all()
    return found if finite else None


def processes_of(rank: dict) -> list[int]:
    """The numbers of the processes that an answer started, helpers left out."""
    return [n for n, helps in enumerate(rank["helper"]) if n and not helps]


def refuse_other_number(found: int, expected: int, *, what: str, hint: str) -> None:
    """Refuse more or fewer processes than `expected`."""
    if found != expected:
        started = "1 process" if found == 1 else f"{found} processes"
        fill = {"started": started, "expected": expected, "what": what, "each": hint}
        raise _TEXTS.wrong("other number", **fill)


def refuse_unfinished(rank: dict, own: list[int], what: str) -> None:
    """Refuse processes that still ran at the return, or failed.

    `what` says what is wrong about the first.
    """
    text, *where = rank["told"] or ["terminated, or left with an exit code"]
    where = "".join(f", {place(Frame(*frame))}" for frame in where)
    raised = "raised" if rank["told"] else "ended early"
    for name, why in (("failed", raised), ("running", "running")):
        if count := sum(any(rank[name][n : n + 1]) for n in own):
            fill = {"text": text, "where": where, "what": what}
            raise _TEXTS.wrong(name, why=why, count=count, processes=len(own), **fill)


def refuse_one_by_one(rank: dict, count: int) -> None:
    """Refuse processes of which no two were there at a time."""
    if rank["most"] < 2:
        raise _TEXTS.wrong("one by one", count=count)


def wrong_type(found: torch.Tensor) -> Wrong:
    """Right counts of a type that large ones do not fit in."""
    return _TEXTS.wrong("wrong type", kind=str(found.dtype).removeprefix("torch."))


def first_true(reasons: dict) -> str:
    """The name of the first reason that holds."""
    return next(name for name, holds in reasons.items() if holds)


def _miscounted(expected, rank, found):
    own, total, lost = processes_of(rank), sum(expected), sum(expected) - sum(found)
    label = next(n for n in range(10) if found[n] != expected[n])
    fill = {
        "total": total,
        "lost": lost,
        "counted": sum(found),
        "processes": len(own),
        "sent": sum(rank["sent"][1:]),
        "taken": sum(rank["taken"][:1]),
        "label": label,
        "times": found[label],
        "expected": expected[label],
    }
    if lost <= 0:
        name, why = "other counts", _why_more(expected, found, len(own))
    elif lost == total and not any(rank["sent"]):
        name, why = "lost", _why_nothing(rank)
    else:
        name, why = "lost", _why_lost(rank, **fill)
    clue = {"found": found, "shared": rank["shared"]}
    return _TEXTS.wrong(name, why=why, clue=clue, **fill)


def _why_more(expected, found, processes):
    """The hint for counts that are not too small."""
    return first_true(
        {
            "all twice": found == [2 * number for number in expected],
            "all shares": found == [processes * number for number in expected],
            "right sum": sum(found) == sum(expected),
            "other numbers": True,
        }
    )


def _why_nothing(rank):
    """The hint where the counts are still those of the start."""
    return first_true(
        {
            "other memory": any(rank["writes"][1:]),
            "shared too late": rank["shared"] and any(rank["stores"]),
            "new tensor": rank["shared"],
            "private tensor": isinstance(rank["returned"], torch.Tensor),
            "private numbers": True,
        }
    )


def _why_lost(rank, *, lost, sent, taken, processes, **_):
    """The hint for counts that are too small, by what the processes did."""
    looked, held = (sum(rank[name][1:]) for name in ("looked", "held_lock"))
    always, met = held == looked > 0, any(rank["met"])
    return first_true(
        {
            "8 bits": lost % 256 == 0,
            "not taken": taken < sent,
            "lock of threads": any(rank["thread_lock"]),
            "own locks": any(rank["own_lock"][1:]),
            "semaphore": held and rank["wide"],
            "different locks": always and met and rank["locks"] >= processes,
            "read before": always,
            "not held": rank["locks"],
            "no lock": True,
        }
    )


def failed(case: Case, wrong) -> None:
    """Add what follows from processes that wait for each other."""
    if not wrong.hint and "Stuck" in str(wrong):
        wrong.hint = _TEXTS.hint("stuck")
    raise wrong


EXERCISE = Exercise(
    "5.1",
    observe,
    cases,
    judge,
    proof="{}, and none is lost although each write came late",
    failed=failed,
)
