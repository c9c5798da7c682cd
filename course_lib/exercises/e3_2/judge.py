"""Exercise 3.2, decided: replicas that a hand-written loop keeps equal, or does not."""

import random
from collections.abc import Iterator
from functools import partial

from course_lib.exercises import baseline
from course_lib.exercises.compare import apart, gap, largest
from course_lib.exercises.e2_2.judge import weighed
from course_lib.exercises.e3_1.judge import (
    batches_on,
    draw_transfers,
    judge_cost,
    trained,
)
from course_lib.exercises.e3_1.judge import failed as failed
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, size

_TEXTS = Texts("3.2")
_CLOSE = 1e-5  # weights; the planted mistake moves them by more than 1e-2
_CASES = ((4, 60, 5), (3, 36, 6))  # devices, samples in a batch, batches


def cases(seed: int) -> Iterator[Case]:
    """Yield two trainings on other numbers of devices, batches and samples.

    Expected are the steps of one device, and the weights at the end.
    """
    numbers = random.Random(seed)
    drawn = [
        (count, count * numbers.randint(8, 14), numbers.randint(4, 7))
        for count in numbers.sample((2, 3, 5, 6), 2)
    ]
    for count, batch, steps in drawn if seed else _CASES:
        given = batches_on(count, batch, seed=seed, steps=steps)
        yield Case(given, expected=trained(given, momentum=0.9))


def judge(case: Case, seen) -> str:
    """Compare all replicas with each other and with one device, then count the cost."""
    [rank] = seen
    names, steps = rank["devices"], len(case.expected[0])
    where = f"{steps} steps on {len(names)} devices"
    if list(rank["replicas"]) != list(names):
        places = list(rank["replicas"])
        told = {"returned": shown(rank["returned"]), "count": len(names)}
        told["places"] = listed(places or ["no device"])
        raise _TEXTS.wrong("no replicas", clue={"places": places}, **told)
    _judge_replicas(rank, *case.expected, where=where)
    nbytes = baseline.size(case.given["model"])
    copies, weights = (len(names) - 1) * nbytes, sum(rank["weights"].values())
    if weights > 2.5 * copies:  # made equal once more before the first step
        fill = {"weights": size(weights), "copies": size(copies), "where": where}
        raise _TEXTS.wrong("weights travel", targets=listed(rank["weights"]), **fill)
    share = steps * len(case.given["batches"][0][1]) // len(names)
    # the copies at the start, and both ways in each step
    ways = (1 + steps) * nbytes, steps * nbytes
    wrong = partial(_TEXTS.wrong, where=where)
    shares = [share] * len(names)
    sent = judge_cost(rank, rank, shares, weights=ways, wrong=wrong)
    return f"{where} ({size(sent / steps)} for each)"


def _judge_replicas(rank, steps, end, *, where):
    first, *others = rank["replicas"].values()
    off, drift = gap(first, end), max(gap(first, other) for other in others)
    if max(off, drift) <= _CLOSE:
        return
    taken = {
        name: [step for step in rank["steps"] if step["device"] == name]
        for name in rank["devices"]
    }
    ends = [apart(one, end) for one in (first, *others)]
    clue = {"apart": ends, "steps": list(map(len, taken.values()))}
    fill = {"hint": _first(taken, steps), "where": where, "off": off, "drift": drift}
    raise _TEXTS.wrong("apart", clue=clue, **fill)


def _first(taken, steps):
    """What differs first from a right training: the number of steps, or one of them."""
    for name, found in taken.items():
        if len(found) != len(steps):
            fill = {"device": name, "took": len(found), "steps": len(steps)}
            return _TEXTS.hint("other steps", **fill)
    for number, right in enumerate(steps):
        for name, found in taken.items():
            place = f"on {name} at step {number + 1}"
            if hint := _differs(found[number], right, place):
                return hint
    return _TEXTS.hint("weights", place="after the last step")


def _differs(found, right, place):
    """What differs in a step of one device; nothing if it is right."""
    gradient, mean = found["gradient"], right["whole"]
    off = gap(found["weights"], right["weights"])
    if off > _CLOSE or not apart(gradient, mean):
        return _TEXTS.hint("weights", place=place)
    most = 1e-3 * largest(mean)
    wrong = [n for n in mean if gap({n: gradient[n]}, {n: mean[n]}) > most]
    if not wrong:
        return ""
    mine, *each = ({n: grads[n] for n in wrong} for grads in (gradient, *right["each"]))
    told = weighed(mine, each, right["shares"], of="chunks")
    return _TEXTS.hint("gradient", told=told, place=place, wrong=listed(wrong))


def draw(case: Case, seen):
    """Draw what travelled in the training."""
    return draw_transfers(seen[0]["trace"])
