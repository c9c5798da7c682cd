"""Exercise 5.1, decided: several processes count, and no count is lost.

How many are lost differs from run to run, and what the processes did does not: most
hints say what follows from that, and few mistakes have a fingerprint.
"""

import random
from collections import Counter
from collections.abc import Iterator

import torch

from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e5_1 import observe
from course_lib.exercises.values import shown
from course_lib.stacks import Frame, place

# all begin with the same label, so that all want to change the same number
_SHARES = (
    ([3, 3, 3, 1, 4, 1, 5], [3, 3, 3, 3, 9, 2, 6, 5, 3], [3, 3, 3, 5, 8], [3, 3, 3]),
    ([7] * 300, [7, 7, 0, 7, 2], [7, 7, 7, 0, 7, 1, 8]),
)
_GIVE = "Give each share to a process of its own."
_WORK = ("writes", "stores", "sent", "files")


def cases(seed: int) -> Iterator[Case]:
    """Four shares, and three of which one is long: bytes are too small for it."""
    for shares in _SHARES if not seed else _drawn(random.Random(seed)):
        counted = Counter(label for share in shares for label in share)
        expected = [counted[label] for label in range(10)]
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
        raise Wrong(
            f"count returned {shown(rank['returned'])}, expected i64[10]",
            "Return the counts: ten numbers, one for each label from 0 to 9.",
        )
    own = processes_of(rank)
    refuse_other_number(len(own), shares, what=f" for {shares} shares", hint=_GIVE)
    refuse_unfinished(rank, own, "the counts are read too early")
    if found.tolist() != expected:
        raise _miscounted(case, rank, found.tolist())
    idle = [n for n in own if not any(rank[name][n : n + 1] != [0] for name in _WORK)]
    if idle:
        raise Wrong(
            f"{len(idle)} of {shares} processes wrote to no shared memory and sent"
            " nothing",
            "The numbers are right, but the other processes had nothing to do. Each of"
            " them goes through its own share.",
        )
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
        raise Wrong(
            f"the answer started {found} process{'es' * (found != 1)}{what}, expected"
            f" {expected}",
            f"{hint} Start as many as that, no more and no fewer, each with"
            " mp.Process(target=..., args=...).",
        )


def refuse_unfinished(rank: dict, own: list[int], what: str) -> None:
    """Refuse processes that still ran at the return, or failed.

    `what` says what is wrong about the first.
    """
    running, failed = (
        sum(any(rank[name][n : n + 1]) for n in own) for name in ("running", "failed")
    )
    if failed:
        text, *where = rank["told"] or ["terminated, or left with an exit code"]
        where = "".join(f", {place(Frame(*frame))}" for frame in where)
        raise Wrong(
            f"{failed} of {len(own)} processes failed: {text}{where}",
            "What they raised is shown above. The parent does not raise it: join()"
            " returns, however a process ended."
            if rank["told"]
            else "terminate() ends a process wherever it is, and os._exit leaves at"
            " once. Let each come to its end by itself, and wait for it by join().",
        )
    if running:
        raise Wrong(
            f"{running} of {len(own)} processes still ran at the return",
            f"start() does not wait: {what}. Call join() on every process.",
        )


def refuse_one_by_one(rank: dict, count: int) -> None:
    """Refuse processes of which no two were there at a time."""
    if rank["most"] < 2:
        raise Wrong(
            f"{count} processes ran one after the other, expected all at once",
            "The result is right. A join() right after start() waits for each process"
            " before the next one starts, and so does a get(): first start all, then"
            " wait for all.",
        )


def wrong_type(found: torch.Tensor) -> Wrong:
    """Right counts of a type that large ones do not fit in."""
    kind = str(found.dtype).removeprefix("torch.")
    return Wrong(
        f"the counts are {kind}, expected i64[10]",
        "The numbers are right, as they are small. In float32 adding 1 to 16,777,216"
        " changes nothing, and in int32 numbers end at 2,147,483,647: count with"
        " dtype=torch.int64.",
    )


def _miscounted(case, rank, found):
    own, expected = processes_of(rank), case.expected
    total, lost = sum(expected), sum(expected) - sum(found)
    clue = {"found": found, "shared": rank["shared"]}
    if lost > 0:
        return Wrong(
            f"of {total} labels {lost:g} were lost: {len(own)} processes counted"
            f" {sum(found):g}",
            _why_nothing(rank)
            if lost == total and not any(rank["sent"])
            else _why_lost(rank, own, lost),
            clue=clue,
        )
    label = next(n for n in range(10) if found[n] != expected[n])
    hint = "Each label of each share adds 1 to its own number, once."
    if found == [2 * number for number in expected]:
        hint += " Here every label counts twice."
    elif found == [len(own) * number for number in expected]:
        hint += " Here every process goes through all shares."
    elif not lost:
        hint += " The sum is right, and single numbers are not."
    return Wrong(
        f"label {label} was counted {found[label]:g} times, expected {expected[label]}",
        hint,
        clue=clue,
    )


def _why_lost(rank, own, lost):
    """The hint for counts that are too small, by what the processes did."""
    if lost % 256 == 0:
        return (
            f"Exactly {lost} are missing: in a tensor of 8 bits 255 + 1 is 0. Count"
            " with dtype=torch.int64."
        )
    taken, sent = rank["taken"][:1], sum(rank["sent"][1:])
    if sent and sum(taken) < sent:
        return (
            f"The processes sent {sent} messages, and the parent took {sum(taken)}:"
            " call get() once for each put(). `queue.empty()` is true, too, before"
            " anybody has put something there."
        )
    looked, held = (sum(rank[name][1:]) for name in ("looked", "held_lock"))
    if any(rank["thread_lock"]):
        return (
            "A lock of `threading` is copied with the process: each process has one of"
            " its own, and nobody waits. Between processes it takes mp.Lock()."
        )
    if any(rank["own_lock"][1:]):
        return (
            "Each process makes a lock of its own, so nobody ever waits. Make one lock"
            " before the processes start, and give it to all of them."
        )
    if held and rank["wide"]:
        return (
            "mp.Semaphore(2) lets two processes in at a time, and they lose counts as"
            " without it. A semaphore of 1 is a lock."
        )
    if held == looked > 0 and any(rank["met"]) and rank["locks"] >= len(own):
        return (
            "Two processes each held a lock and still wrote at the same time: these"
            " were different locks. All processes need the same one, where they read"
            " and where they write."
        )
    if held == looked > 0:
        return (
            "A process holds the lock when it writes, but it has read the old number"
            " before: another one wrote in between. Read and write under one lock."
        )
    if rank["locks"]:
        return (
            "There is a lock, but a process that writes does not hold it. Write `with"
            " lock:` around the whole addition."
        )
    return (
        "An addition is a read and a write, and another process may come between: both"
        " read the same number, and one addition is lost. Let only one in at a time"
        " (mp.Lock), or give each process numbers of its own."
    )


def _why_nothing(rank):
    """The hint where the counts are still those of the start."""
    if any(rank["writes"][1:]):
        return (
            "The processes wrote to shared memory, but not to that of these counts."
            " Call share_memory_() before the processes start, on this very tensor."
        )
    if rank["shared"] and any(rank["stores"]):
        return (
            "The counts are in shared memory now, and were not when the processes"
            " started: each changed its own copy. Call share_memory_() before the first"
            " start."
        )
    if rank["shared"]:
        return (
            "The counts are in shared memory, and no process wrote there: `counts ="
            " counts + ...` makes a new, private tensor. Write in place,"
            " `counts[label] += 1`."
        )
    if isinstance(rank["returned"], torch.Tensor):
        return (
            "Each process changed its own copy of the tensor, or of a list: a fork"
            " copies them all. Call share_memory_() before the first process starts."
        )
    return (
        "A fork copies the numbers and lists of Python: each process changes its own"
        " copy. Only shared memory is seen by all."
    )


def failed(case: Case, wrong) -> None:
    """Add what follows from processes that wait for each other."""
    if not wrong.hint and "Stuck" in str(wrong):
        wrong.hint = (
            "Each process waits for another one. Look at the line above: who should"
            " end, or put something there, and does it?"
        )
    raise wrong


EXERCISE = Exercise(
    "5.1",
    observe,
    cases,
    judge,
    proof="{}, and none is lost although each write came late",
    failed=failed,
)
