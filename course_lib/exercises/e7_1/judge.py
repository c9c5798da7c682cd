"""Exercise 7.1, decided: a ring all-reduce of chunks, its sums and what they cost."""

import math
import random
from collections.abc import Iterator

import torch

from course_lib.exercises.attempt import Failed
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many

_TEXTS = Texts("7.1")
_F32, _F64, _I64 = torch.float32, torch.float64, torch.int64
# ranks, numbers, type: one that n divides, a long one, others that n does not divide,
# fewer numbers than ranks, nobody to send to
_SIZES = ((3, 12, _F32), (5, 100_003, _F64), (2, 7, _I64), (5, 3, _F32), (1, 4, _F32))
_NOTES, _NOTE = 4096, 200  # bytes of gloo's own, in all and for a message
_ROUNDED = 0.02  # of the largest sum: what numbers of 16 bits may be off
# what a launch says of ranks that wait for each other
_ENDS = {"All send": "all send", "All wait to receive": "all receive"}


def cases(seed: int) -> Iterator[Case]:
    """Yield a launch for each size; expected are the sums."""
    order = torch.Generator().manual_seed(seed)
    for ranks, length, kind in _SIZES if not seed else _drawn(random.Random(seed)):
        tensors = [_numbers(length, kind, order) for _ in range(ranks)]
        yield Case({"tensors": tensors}, ranks, expected=sum(tensors))


def _drawn(numbers):
    ranks = numbers.sample((2, 3, 4, 6), 3)
    lengths = numbers.randint(3, 5) * ranks[0], 40_001, ranks[2] - 1
    yield from zip(ranks, lengths, (_F32, _F64, _I64))
    yield 1, 5, _F32


def _numbers(length, kind, order):
    """Numbers whose sums are exact in this type, and wide ones in no narrower type."""
    whole = torch.randint(-999, 1000, (length,), generator=order)
    return {_F32: whole, _F64: whole + 2.0**-33, _I64: whole + 2**57}[kind].to(kind)


def judge(case: Case, seen) -> str:
    """Look at what travelled and to whom, at the sums, then at the cost."""
    meter, ranks = seen.meter, case.world_size
    _refuse_calls(meter, ranks)
    _refuse_sums(case, seen)
    _TEXTS.refuse(_open(seen))
    _refuse_traffic(case, meter, threads=any(one["threads"] for one in seen))
    return f"{many(len(case.expected), 'number')} on {many(ranks, 'rank')}"


def _refuse_calls(meter, ranks):
    """Refuse collectives, beside the barrier that the check begins with, and ways."""
    names = [call.name for call in meter.collectives]
    if len(names) > ranks or set(names) - {"barrier"}:
        calls = listed(sorted(set(names) - {"barrier"}) or ["barrier"])
        raise _TEXTS.wrong("collective", calls=calls)
    for message in meter.messages:
        if message.target != (message.source + 1) % ranks:
            fill = {"rank": message.source, "target": message.target, "ranks": ranks}
            raise _TEXTS.wrong("not to the right", **fill)


def _refuse_sums(case, seen):
    expected, ranks = case.expected, case.world_size
    apart = [_apart(one["sums"], expected) for one in seen]
    for rank, (one, off) in enumerate(zip(seen, apart)):
        fill = {"rank": rank, "ranks": ranks, "length": len(expected)}
        if off is None:
            raise _TEXTS.wrong("other vector", returned=shown(one["sums"]), **fill)
        if off.any():
            place = off.nonzero()[0].item()
            fill |= {"found": one["sums"][place].item(), "place": place}
            own = listed(str(part[place].item()) for part in case.given["tensors"])
            fill |= {"own": own, "right": expected[place].item()}
            rounded = off.abs().max() < _ROUNDED * expected.double().abs().max()
            why, clue = "bits" if rounded else "", {"apart": dict(enumerate(apart))}
            raise _TEXTS.wrong("other sum", why=why, clue=clue, **fill)


def _apart(found, expected):
    """By how much each number differs; None for a vector of another type or length."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return None
    return (found - expected).double()


def _open(seen):
    """How many requests nobody has waited for, on each rank."""
    for place, name in enumerate(("open sends", "open receives")):
        yield name, [sum(one["open"][place : place + 1]) for one in seen], 0, 0, 0


def _refuse_traffic(case, meter, *, threads):
    """Refuse more or less than a ring of chunks sends, or more rounds.

    What `threads` beside the answer's own send is in the round in which they get to it:
    on a busy machine that is a later one, and nobody has waited for another.
    """
    ranks, length, size = case.world_size, len(case.expected), case.expected.nbytes
    chunks = 2 * (ranks - 1)
    most = chunks * math.ceil(length / ranks) * case.expected.itemsize
    sent = list(map(meter.sent, range(ranks)))
    fill = {"ranks": ranks, "length": length, "needed": chunks / ranks}
    if max(sent) > most:
        fill |= {"rank": sent.index(max(sent)), "tensors": max(sent) / size}
        whole = any(message.bytes >= size for message in meter.messages)
        passes = "twice" if max(sent) >= chunks * size else "once"
        why = passes if whole else "more"
        raise _TEXTS.wrong("sent more", why=why, **fill)
    if sum(sent) < chunks * size:
        fill |= {"tensors": sum(sent) / size, "chunks": chunks}
        raise _TEXTS.wrong("sent less", **fill)
    rounds = len({message.round for message in meter.messages})
    if rounds > chunks and not threads:
        why = "pieces" if len(meter.messages) > ranks * chunks else "one waits"
        told = {"rounds": rounds, "chunks": chunks, "ranks": ranks}
        raise _TEXTS.wrong("rounds", why=why, **told)
    least, items = math.ceil(length / ranks), case.expected.itemsize
    largest = [max(_sizes(meter, rank), default=0) // items for rank in range(ranks)]
    _TEXTS.refuse([("unequal", largest, least, 0, least)], length=length)
    _TEXTS.refuse([("beside", list(_beside(meter)), 0, 0, _NOTES)])


def _sizes(meter, rank):
    return (message.bytes for message in meter.messages if message.source == rank)


def _beside(meter):
    """The bytes that left each rank beside its messages and gloo's notes on them."""
    for rank in range(meter.world_size):
        notes = _NOTE * sum(message.source == rank for message in meter.messages)
        yield max(0, meter.left(rank) - meter.sent(rank) - notes)


def failed(case: Case, wrong: Failed) -> str:
    """Say what ranks that wait for each other, or crash, have to do with messages."""
    error, said = wrong.error, str(wrong.error)
    why = ""
    if error.kind == "stalled":
        why = next((name for text, name in _ENDS.items() if text in said), "unpaired")
    elif error.kind in ("lost", "late"):
        why = "unpaired"
    elif error.kind == "killed" or "must match the size" in said:
        why = "other size"
    elif "'tuple' object does not support item assignment" in said:
        why = "tuple"
    elif case.world_size == 1:
        why = "alone"
    if why:
        wrong.hint, wrong.clue = _TEXTS.hint(why), None
    raise wrong
