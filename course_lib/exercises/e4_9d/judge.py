"""Exercise 4.9d, decided: a DDP whose buckets travel while backward goes on.

4.9e asks for the same of its steps, and refuses them by these sentences.
"""

import random
from collections.abc import Iterator
from typing import Any

from course_lib.exercises.compare import CLOSE, SMALL, apart, gap, largest
from course_lib.exercises.e4_9d.network import Branched, alone, buckets_of, drawn_step
from course_lib.exercises.e4_9d.observe import observe
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many

__all__ = ["cases", "judge", "observe"]
_TEXTS = Texts("4.9d")
_METHODS = ("forward", "finish")
_NESTED = 2  # micro-batches; of more one is within the block of others
WIDTHS = (9, 14, 12)


def cases(seed: int) -> Iterator[Case]:
    """Yield steps without a branch on all ranks, on some, and a single bucket.

    Expected are the state, then gradients and state after each step, of one process.
    """
    numbers = random.Random(seed)
    first, second = numbers.sample((2, 3, 4), 2) if seed else (2, 3)
    widths = numbers.sample(WIDTHS, 3) if seed else WIDTHS
    everyone, nobody = [True] * first, [False] * first
    steps = [[everyone], [everyone], [nobody], [everyone]]
    yield case_of(numbers, steps, width=widths[0], one_fills=True)
    some = numbers.sample([True, False, *[True] * (second - 2)], second)
    steps = [[some], [[True] * second], [[not one for one in some]]]
    yield case_of(numbers, steps, width=widths[1])
    steps = [[[True] * (5 - seed % 2)]] * 2
    yield case_of(numbers, steps, width=widths[2], one_bucket=True)


def case_of(
    numbers: random.Random, steps, *, width: int, one_bucket=False, one_fills=False
) -> Case:
    """Return a training whose `steps` say for each batch which ranks take the branch.

    Where that is None, something is raised before the others. A bucket has exactly
    `cap` bytes where `one_fills`; else zero_grad leaves zeros, no None.
    """
    given: dict[str, Any] = {"width": width, "seed": numbers.randrange(1000)}
    # a square weight and two biases fit; what is full first is not what is sent first
    fitting = 4 * width**2 + 8 * width + numbers.randrange(30)
    if one_fills:  # a square weight and a bias
        fitting = 4 * width**2 + 4 * width
    given["cap"] = 2**20 if one_bucket else fitting
    given["set_to_none"] = one_fills
    quiet = any(len(step) > 1 for step in steps)
    given["methods"] = (*_METHODS, "no_sync") if quiet else _METHODS
    given["steps"] = [
        {
            "batches": drawn_step(numbers, filter(None, step)),
            "trouble": None in step,
            "nested": len(step) > _NESTED,
        }
        for step in steps
    ]
    return Case(given, len(steps[0][0]), expected=alone(given))


def judge(case: Case, seen) -> str:
    """Look at the start, then at each step: what travels, when, what comes of it."""
    refuse_start(case, seen)
    for number in range(len(case.given["steps"])):
        refuse_step(case, [one["steps"][number] for one in seen], number)
    return f"{many(len(_buckets(case)), 'bucket')} on {case.world_size} ranks"


def _buckets(case):
    return buckets_of(Branched(case.given["width"]), case.given["cap"])


def refuse_start(case: Case, seen) -> None:
    """Refuse what is no model, and other parameters and buffers than rank 0's."""
    for rank, one in enumerate(seen):
        where = {"rank": rank, "ranks": case.world_size}
        if one["returned"] is not None:
            returned, methods = shown(one["returned"]), listed(case.given["methods"])
            raise _TEXTS.wrong(
                "no model", returned=returned, methods=methods, clue={}, **where
            )
        if not one["kept"]:
            raise _TEXTS.wrong("other module", **where)
        right, found = case.expected[0], one["start"]
        names = [n for n in right if n not in found or _differ(right[n], found[n])]
        if names:
            kinds = {name.partition(".")[0] for name in names}
            why = kinds.pop() if kinds in ({"scale"}, {"frozen"}) else "parameters"
            raise _TEXTS.wrong("start", why=why, name=names[-1], **where)


def _differ(one, other):
    return gap({"": one}, {"": other}) > CLOSE


def refuse_step(case: Case, steps, number: int) -> None:
    """Refuse a step of all ranks by what travels, when, waits, gradients, weights."""
    fill = {"step": number + 1, "ranks": case.world_size, "cap": case.given["cap"]}
    buckets = _buckets(case)
    for refuse in (_refuse_sent, _refuse_order, _refuse_waits):
        for rank, step in enumerate(steps):
            refuse(step, buckets, fill | {"rank": rank})
    gradients, weights = case.expected[number + 1]
    _refuse_gradients([step["gradients"] for step in steps], gradients, fill)
    off = max(gap(step["weights"], weights) for step in steps)
    if off > CLOSE:
        raise _TEXTS.wrong("other weights", off=off, close=CLOSE, **fill)


def large(sent) -> list[int]:
    """Return the bytes of what travelled, without small things such as a loss."""
    return [size for _, size in sent if size > SMALL]


def _refuse_sent(step, buckets, fill):
    """Refuse all but an all-reduce for each bucket, in order."""
    names = {name for name, size in step["sent"] if size > SMALL}
    if others := sorted(name.rstrip("_") for name in names - {"allreduce_"}):
        raise _TEXTS.wrong("more sent", names=listed(others), **fill)
    found, right = large(step["sent"]), [sum(bucket.values()) for bucket in buckets]
    if found != right:
        every = [size for bucket in buckets for size in bucket.values()]
        why = _why_sent(found, right, every, fill)
        told = {"found": listed(found) if found else "nothing", "right": listed(right)}
        clue = {"step": fill["step"], "sizes": found}
        raise _TEXTS.wrong("sent", why=why, clue=clue, **told, **fill)


def _why_sent(found, right, every, fill):
    """The name of the hint for other bytes than those of the buckets."""
    if not found:
        return "nothing" if fill["step"] == 1 else "nothing again"
    if sorted(found) == sorted(every):
        return "each alone"
    if sorted(found) == sorted(right):
        return "overtaken"
    if sum(found) < sum(right):
        return "missing"
    if any(size > fill["cap"] and size not in every for size in found):
        return "too large"
    if sum(found) > sum(right):
        return "more than once"
    return "other filling"


def _refuse_order(step, buckets, fill):
    """Compare how many calls there are at each gradient of the last pass."""
    last = step["passes"][len(step["passes"]) - 1]
    found = [len(large(step["sent"][:count])) for count in last["calls"]]
    there = last["there"]
    least = _counts(there, buckets, set())
    # an answer may know that a gradient does not come in this pass
    most = _counts(there, buckets, {n for b in buckets for n in b} - set(there))
    for place, (count, low, high) in enumerate(zip(found, least, most)):
        if not low <= count <= high:
            name = there[place] if place < len(there) else ""
            when = f"when the gradient of {name} came" if name else "at backward's end"
            why = (
                "early" if count > high else "late" if any(found) else "all at the end"
            )
            told = {"found": many(count, "all-reduce"), "right": low, "when": when}
            clue = {"step": fill["step"], "calls": found}
            raise _TEXTS.wrong("order", why=why, clue=clue, **told, **fill)


def _counts(there, buckets, absent):
    """How many buckets may have been sent before each gradient, and at the end."""
    got, counts, sent = set(absent), [], 0
    for name in [*there, None]:
        counts.append(sent)
        got.add(name)
        while sent < len(buckets) and got.issuperset(buckets[sent]):
            sent += 1
    return [*counts[:-1], sent]


def _refuse_waits(step, buckets, fill):
    """Refuse waits in a pass, calls without one, and what is used before its wait."""
    waits = [kind for one in step["passes"].values() for kind in one["waits"]]
    if waits:
        why = "synchronous" if "synchronous" in waits else "wait"
        raise _TEXTS.wrong("waits", why=why, found=len(waits), **fill)
    facts = [("open", [step["open"]], 0, 0, 0), ("touched", [step["touched"]], 0, 0, 0)]
    _TEXTS.refuse(facts, **fill, buckets=len(buckets))


def _refuse_gradients(found, expected, fill):
    """Compare the gradients of all ranks after finish; a missing one counts as 0."""
    found = [{n: one.get(n, 0 * expected[n]) for n in expected} for one in found]
    off = max(gap(one, expected) for one in found) / largest(expected)
    if off > CLOSE:
        different = [apart(one, expected) for one in found]
        clue = {"step": fill["step"], "apart": different}
        raise _TEXTS.wrong(
            "gradients", clue=clue, off=100 * off, most=100 * CLOSE, **fill
        )
