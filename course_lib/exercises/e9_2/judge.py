"""Exercise 9.2, decided: an optimizer of which each rank holds a share."""

from collections.abc import Iterator

import torch

from course_lib.exercises.attempt import Failed
from course_lib.exercises.compare import apart, gap
from course_lib.exercises.e9_2.reference import trained, training
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import many

_TEXTS = Texts("9.2")
_CLOSE = 1e-5  # of weights up to 2; rounding makes 1e-6, a mistake 1e-4
_ROUNDED = 1e-4  # what 16 bits leave
_NUMBER = 4  # bytes of a float32
_STATE = 16  # bytes: a number, its gradient, and its two averages
_TENSOR = 64  # bytes for each tensor: norms and counters, a share of its own rounded up
_THREE_HALVES = 1.4, 1.6  # an all-reduce, and an all-gather after it
# what a rank raises, and the name of the hint
_RAISED = {
    "an empty parameter list": "exhausted",
    "non-empty TensorList": "exhausted",
    "non-empty list of Tensors": "exhausted",
    "NoneType": "none",
    "outputShape[0] * worldSize": "divisible",
    "invalid tensor size": "divisible",
    "split_with_sizes": "divisible",
    "leaf Variable that requires grad": "in place",
    "a view of a leaf Variable": "in place",
}


def cases(seed: int) -> Iterator[Case]:
    """Yield one rank, which does the arithmetic alone, then two, then more."""
    for ranks in (1, 2, 3 + seed % 3):
        given = training(seed, ranks)
        share = -(-_count(given) // ranks)
        given["most"] = _STATE * share + _extra(given)
        yield Case(given, ranks, expected=trained(given))


def judge(case: Case, seen) -> str:
    """Compare the weights of all steps, then bytes that were sent, then those kept."""
    for rank, one in enumerate(seen):
        if "steps" not in one:
            fill = {"rank": rank, "ranks": len(seen)}
            raise _TEXTS.wrong("no step", returned=shown(one["returned"]), **fill)
    for number, expected in case.expected.items():
        found = [one["steps"][number]["weights"] for one in seen]
        _refuse_weights(case, found, expected, number)
    for number in case.expected:
        _refuse_sent([one["steps"][number]["sent"] for one in seen], case, number)
    held, most = [one["held"] for one in seen], case.given["most"]
    count = _count(case.given)
    fill = {"share": -(-count // len(seen)), "count": count}
    _TEXTS.refuse([("more kept", held, most, 0, most)], **fill)
    return many(case.world_size, "rank")


def _count(given):
    """How many numbers are trained."""
    every = enumerate(given["weights"])
    return sum(w.numel() for place, w in every if place not in given["frozen"])


def _extra(given):
    return _TENSOR * (len(given["weights"]) - len(given["frozen"]))


def _refuse_weights(case, found, expected, number):
    """Refuse weights after a step that no process alone would have."""
    differences = [apart(one, expected) for one in found]
    clue = {"step": number, "apart": differences}
    fill = {"step": number + 1, "ranks": len(found), "clue": clue, "most": _CLOSE}
    frozen = [str(place) for place in case.given["frozen"]]
    for rank, one in enumerate(found):
        if not _fit(one, expected):
            raise _TEXTS.wrong("other shapes", rank=rank, **fill)
        if not all(torch.equal(one[name], expected[name]) for name in frozen):
            raise _TEXTS.wrong("frozen", rank=rank, **fill)
    for rank, one in enumerate(found):
        off = gap(one, found[0])
        if not off <= _CLOSE:
            raise _TEXTS.wrong("unlike", rank=rank, off=off, **fill)
    off = gap(found[0], expected)
    if not off <= _CLOSE:
        parts = differences[0].values()
        fill["count"] = sum(int((~(one.abs() <= _CLOSE)).sum()) for one in parts)
        fill["every"] = sum(one.numel() for one in expected.values())
        fill["ranks"] = many(len(found), "rank")
        why = _why(off, number, len(found))
        if not number and _still(case.given["weights"], found[0]):
            why = "still"
        raise _TEXTS.wrong("weights", why=why, off=off, **fill)
    for rank, one in enumerate(found):
        if not all(torch.equal(one[name], found[0][name]) for name in expected):
            raise _TEXTS.wrong("bits", rank=rank, off=gap(one, found[0]), **fill)


def _fit(found, expected):
    """Return whether all tensors have the shapes and types that were given."""
    return all(
        found[name].shape == right.shape and found[name].dtype == right.dtype
        for name, right in expected.items()
    )


def _still(weights, found):
    """Return whether a step has left all weights as they were given."""
    return all(torch.equal(w, found[str(place)]) for place, w in enumerate(weights))


def _why(off, number, ranks):
    """The name of the hint for weights that differ by so much after a step."""
    if off < _ROUNDED:
        return "rounded"
    return "alone" if ranks == 1 else "later" if number else "first"


def _refuse_sent(sent, case, number):
    """Refuse more bytes than those of one all-reduce of all gradients, and fewer."""
    ranks, clue = len(sent), {"sent": sent}
    right = 2 * (ranks - 1) / ranks * _NUMBER * _count(case.given)
    fill = {"step": number + 1, "ranks": ranks, "clue": clue, "right": f"{right:,.0f}"}
    for rank, found in enumerate(sent):
        if not found <= right + _extra(case.given):
            times = found / right if right else 1.0
            least, most = _THREE_HALVES
            why = "three halves" if least <= times <= most else "more"
            fill |= {"rank": rank, "found": f"{found:,.0f}", "times": f"{times:.2f}"}
            raise _TEXTS.wrong("more sent", why=why, **fill)
    mean = sum(sent) / ranks
    if not mean >= right - 1:
        raise _TEXTS.wrong("less sent", found=f"{mean:,.0f}", **fill)


def failed(case: Case, wrong: Failed) -> str:
    """Say what the parameters are like, if that is what a rank met."""
    said = wrong.error.what
    if why := next((why for words, why in _RAISED.items() if words in said), ""):
        wrong.hint = _TEXTS.hint(why)
    raise wrong
