"""Run E of exercise 4.10, decided: which of its four faults are left, then the rest."""

from collections.abc import Sequence

from course_lib.exercises import folders
from course_lib.exercises.compare import CLOSE, gap
from course_lib.exercises.e4_10.reference import mean
from course_lib.exercises.e4_10.verdicts import refuse_drift, run_wrong, states_of
from course_lib.exercises.exercise import Case
from course_lib.exercises.values import number_of, shown

_SAME = 1e-4  # of two gradients; counts of labels change them by a hundred times that


def judge_script(case: Case, seen) -> None:
    """Decide on run E: the symptoms of its faults, weights, test, work of each rank."""
    states = states_of(case, seen)
    symptoms = _symptoms(case, seen)
    if symptoms:
        name, fill = next(iter(symptoms.items()))
        text = folders.texts("4.10")["symptoms"][name].replace("\n", " ")
        fill = {"count": 4 - len(symptoms), "symptom": text.format(**fill)}
        clue = {"left": list(symptoms)}
        raise run_wrong("left", case, why=_why(case, seen, name), clue=clue, **fill)
    refuse_drift(case, states)
    off = gap(states[0], case.expected["weights"])
    if off > CLOSE:
        raise run_wrong("weights E", case, off=off, close=CLOSE)
    _refuse_test(case, seen)


def _symptoms(case, seen) -> dict:
    """Return which faults have left their traces, and what of each is shown."""
    steps, train = case.given["steps"], case.given["constants"]["TRAIN"]
    test, found = case.given["constants"]["TEST"], {}
    offs = _off_gradients(case, seen)
    if offs["module"] > _SAME:
        found["module"] = {}
    read = [n for one in seen for part in one["read"][:steps] for n in part]
    if sorted(read) != list(range(train)):
        whole = len({n for n in read if 0 <= n < train})
        found["overlap"] = {"read": whole, "all": train}
    if offs["unequal counts"] > _SAME:
        found["unequal counts"] = {"off": offs["unequal counts"]}
    for one in seen:
        count = one["results"][0]["count"]
        if number_of(count) != test:
            found["padding"] = {"count": shown(count), "test": test}
    return found


def _why(case, seen, name):
    """The name of the hint for a fault: what is new may be another mistake in it."""
    if name == "padding":
        counts = [number_of(one["results"][0]["count"]) for one in seen]
        fewer = any(
            n is not None and n < case.given["constants"]["TEST"] for n in counts
        )
        return "left out" if fewer else name
    if name == "unequal counts":
        longer = _off_gradients(case, seen, times=len(seen))["unequal counts"]
        return "too short" if longer <= _SAME * len(seen) else name
    return name


def _off_gradients(case, seen, times: int = 1) -> dict:
    """Return by how much first gradients differ between ranks, and from right ones.

    Those found are taken `times` as long. A rank's part is right alone, where DDP sends
    nothing, as is the mean of all parts.
    """
    far = float("inf")
    own = [_numbered([part * times for part in one["gradients"]]) for one in seen]
    shares = [(one["read"] or [[]])[0] for one in seen]
    if not all(_is_share(share, case) for share in shares):
        return {"module": far, "unequal counts": far}
    parts = [
        _numbered(list(part.values()))
        for part in case.expected["script"].gradients(shares)
    ]
    whole = mean(parts)
    between = max(gap(one, own[0]) for one in own)
    sent = max(gap(one, whole) for one in own)
    alone = max(map(gap, own, parts))
    off = sent if between <= _SAME else alone
    return {"module": between, "unequal counts": off}


def _numbered(gradients: Sequence) -> dict:
    return dict(enumerate(gradients))


def _is_share(share, case):
    train = case.given["constants"]["TRAIN"]
    return bool(share) and all(0 <= number < train for number in share)


def _refuse_test(case, seen):
    """Refuse another number of right answers, and ranks that test more than a share."""
    constants, ranks = case.given["constants"], case.world_size
    test, right = constants["TEST"], case.expected["right"]
    for one in seen:
        found = one["results"][0]["right"]
        number = number_of(found)
        # a sample between two classes may fall on either side
        if number is None or abs(number - right) > case.expected["unsure"]:
            fill = {"found": shown(found), "right": right, "test": test}
            raise run_wrong("right", case, **fill)
    most = -(-test // ranks) * constants["EPOCHS"]
    for rank, one in enumerate(seen):
        if one["tested"] > most:
            fill = {"rank": rank, "found": one["tested"], "right": most}
            raise run_wrong("not shared", case, epochs=constants["EPOCHS"], **fill)
