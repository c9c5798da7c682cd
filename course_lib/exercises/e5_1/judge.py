"""Exercise 5.1, decided: several processes count, and no count is lost.

How many are lost differs from run to run, and what the processes did does not: by that
known mistakes are found.
"""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.stacks import Frame, place, source

_TEXTS = Texts("5.1")
# all begin with the same label, so that all want to change the same number
_SHARES = (
    ([3, 3, 3, 1, 4, 1, 5], [3, 3, 3, 3, 9, 2, 6, 5, 3], [3, 3, 3, 5, 8], [3, 3, 3]),
    ([7] * 300, [7, 7, 0, 7, 2], [7, 7, 7, 0, 7, 1, 8]),
)
_WORK = ("writes", "stores", "sent", "asking", "files")


def cases(seed: int) -> Iterator[Case]:
    """Yield four shares, and three of which one is long: bytes are too small for it."""
    for shares in _SHARES if not seed else _drawn(random.Random(seed)):
        labels = torch.tensor(sum(shares, []))
        expected = labels.bincount(minlength=10).tolist()
        yield Case({"shares": list(shares)}, expected=expected)


def _drawn(numbers):
    small = [numbers.randint(2, 6) for _ in range(5)]
    for lengths in (small[: numbers.choice((3, 5))], [520, *small[:2]]):
        first = numbers.randrange(10)
        yield [
            [first] * (length // 2 + 1) + numbers.choices(range(10), k=length // 2)
            for length in lengths
        ]


def judge(case: Case, seen) -> str:
    """Compare the counts; each write was held until others had read what it read."""
    [rank] = seen
    shares, expected = len(case.given["shares"]), case.expected
    found = counts_of(rank["returned"])
    if found is None or len(found) != 10:
        raise _TEXTS.wrong("no counts", returned=shown(rank["returned"]))
    own = processes_of(rank, shares, _TEXTS)
    if found.tolist() != expected:
        raise _miscounted(case, rank, found.tolist())
    idle = [n for n in own if not any(rank[name][n : n + 1] != [0] for name in _WORK)]
    # what NumPy writes to a `mp.Array` in one call is not seen
    if idle and (len(idle) < len(own) or not rank["arrays"]):
        raise _TEXTS.wrong("idle", idle=len(idle), shares=shares)
    if found.dtype != torch.int64:
        raise wrong_type(found)
    return f"{min(rank['most'], shares)} processes at a time for {sum(expected)} labels"


def counts_of(value) -> torch.Tensor | None:
    """Return the returned numbers as a tensor of one dimension, or None."""
    try:
        found = torch.as_tensor(value).squeeze()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    finite = found.dim() == 1 and not found.is_complex() and found.isfinite().all()
    return found if finite else None


def processes_of(rank: dict, expected: int, texts: Texts) -> list[int]:
    """Return the numbers of the processes that an answer started, helpers left out.

    Errors: `Wrong` for more or fewer than `expected`, for some that failed or still ran
    at the return, and if no two were there at a time; `texts` of 5.1 or 5.2 say so.
    """
    own = [n for n, helps in enumerate(rank["helper"]) if n and not helps]
    fill = {"count": len(own), "expected": expected}
    if len(own) != expected:
        raise texts.wrong("other number", **fill)
    text, *where = rank["told"] or ["terminated, or left with an exit code"]
    frames = [Frame(*frame) for frame in where]
    told = ", ".join([text, *map(place, frames)])
    for name in ("failed", "running"):
        if some := sum(any(rank[name][n : n + 1]) for n in own):
            clue = {name: bool(rank["told"])}
            wrong = texts.wrong(name, clue=clue, some=some, told=told, **fill)
            wrong.lines = [line for frame in frames for line in ("", *source(frame))]
            raise wrong
    if rank["most"] < 2:
        raise texts.wrong("one by one", **fill)
    return own


def wrong_type(found: torch.Tensor) -> Wrong:
    """Return right counts of a type that large ones do not fit in."""
    return _TEXTS.wrong("wrong type", kind=str(found.dtype).removeprefix("torch."))


def _miscounted(case, rank, found):
    expected = case.expected
    total, counted = sum(expected), sum(found)
    if counted >= total:
        label = next(n for n in range(10) if found[n] != expected[n])
        fill = {"label": label, "times": found[label], "expected": expected[label]}
        return _TEXTS.wrong("other counts", clue={"found": found}, **fill)
    sent, taken = sum(rank["sent"][1:]), sum(rank["taken"][:1])
    why = "between" if any(found) else "own copies"
    if (total - counted) % 256 == 0:
        why = "8 bits"
    elif taken < sent:
        why = "not taken"
    clue = {"shared": rank["shared"], "locks": rank["locks"]}
    clue |= {"locked": any(rank["locked"][1:]), "writes": sum(rank["writes"][1:])}
    fill = {"total": total, "counted": counted, "lost": total - counted}
    fill |= {"processes": len(case.given["shares"]), "sent": sent, "taken": taken}
    return _TEXTS.wrong("lost", why=why, clue=clue, **fill)
