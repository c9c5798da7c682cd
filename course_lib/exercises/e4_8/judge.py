"""Exercise 4.8, decided: a training that goes on after a kill or on a full disk."""

import itertools
import os
from collections.abc import Iterator

import torch

from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import CLOSE, gap, refuse_weights, state_of
from course_lib.exercises.e4_8.launches import launches
from course_lib.exercises.e4_8.observe import EVERY, network
from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.texts import Texts

_TEXTS = Texts("4.8")
_SPARE = 4  # passes that are no steps, such as two before the first one
_KILLS = ("SIGKILL", "SIGXFSZ")
_GONE = ("Connection closed by peer", "Connection reset by peer")  # others notice it so
# what a write raises where no room is left; of DCP it ends no `except Exception`
_FULL = ("OSError", "RuntimeError", "CheckpointException")
# of a step, in this order: what is told of each, and the hint if rank 0 has it
_STEP = {
    "batch": ("another batch", "batch"),
    "weights": ("other weights", "weights"),
    "momentum": ("another momentum of the optimizer", "momentum of others"),
    "rate": ("another rate", "rate"),
    "mask": ("another mask of dropout", "mask of others"),
}
_PARTS = ("empty", "half", "whole", "named", "gone")  # how a file is there
# in the hint about a rank that waits for nobody, and still does not end
_BUSY = ("busy", "too long", "a thread")
# what a restart raises: words of it, and the name of the hint
_RAISED = {
    "left over": ("FileExistsError", "Directory not empty"),
    "half written": (
        *("EOFError", "UnpicklingError", "BadZipFile", "JSONDecode"),
        *("PytorchStreamReader", "ended in the middle"),
    ),
    "file missing": ("FileNotFoundError", "NotADirectory", "IsADirectory"),
}


def cases(seed: int) -> Iterator[Case]:
    """Yield trainings that are killed and go on, as `launches` makes them."""
    yield from launches(seed)


def judge(case: Case, seen) -> str:
    """Compare how many steps were taken, where they went on, and the weights."""
    try:
        _judge(case, seen)
    except Wrong as wrong:
        if "part" in case.given and not case.expected["whole"].get("seldom"):
            wrong.hint = _moment(case)
        raise
    return case.expected["proof"]


def _judge(case, seen):
    total, first = case.expected["total"], "first" in case.expected
    if "die" in case.given["faults"]:
        why = "full" if "full" in case.given["faults"] else "too short"
        found = min(_counts(seen))
        raise _TEXTS.wrong("too short", why=why, found=found, **_where(case))
    if not case.given["faults"]:
        _refuse_position(case, seen)
        most = total - case.expected["saved"]
        least = total if first else 0
        facts = [("too few steps", _counts(seen), total, least, total)]
        _TEXTS.refuse(facts, **_where(case))
        _refuse_steps_again(case, seen, most)
        passes = [one["passes"] - len(one["steps"]) for one in seen]
        _TEXTS.refuse([("passes", passes, 0, 0, _SPARE)], **_where(case))
        _refuse_weights(case, seen)
        _refuse_beside(seen)


def _refuse_steps_again(case, seen, most):
    """Refuse more steps than a start may do that begins with the last save."""
    for rank, found in enumerate(_counts(seen)):
        if found > most:
            fill = {"rank": rank, "ranks": len(seen), "found": found, "right": most}
            why = _why_again(case, found)
            raise _TEXTS.wrong("too many steps", why=why, **fill, **_where(case))


def _why_again(case, found):
    """The name of the hint for steps that are done again."""
    whole = case.expected.get("whole", {})
    if whole.get("seldom") or found < case.expected["total"]:
        return "seldom"
    if case.expected["saved"] == case.expected["total"] - EVERY:
        return "begins anew"
    return "ranks changed" if "alone" in case.expected else "lost"


def _moment(case):
    """The hint about what the folder held when one rank was started again."""
    part, name = case.given["part"], os.path.basename(case.given["path"])
    return _TEXTS.hint(part if part in _PARTS else "whole", name=name)


def _counts(seen):
    return [len(one["steps"]) for one in seen]


def _where(case):
    return {"told": case.given["told"], "total": case.expected["total"]}


def _known(case):
    """The steps of each rank without a fault; of one process where no others are."""
    known = case.expected.get("alone") or case.expected["whole"]
    return known.get("steps", [])


def _refuse_position(case, seen):
    """Refuse a start with the weights of one step and the batch of another."""
    known, where = _known(case), {"ranks": len(seen), **_where(case)}
    if len(known) != len(seen):
        return
    for rank, (one, steps) in enumerate(zip(seen, known)):
        if not one["steps"]:
            continue
        weights, batch = (
            _place(steps, name, one["steps"][0][name]) for name in ("weights", "batch")
        )
        if batch is None or weights is None or weights == batch:
            continue
        clue = [weights, batch]
        fill = {"weights": weights, "batch": batch + 1, "rank": rank, **where}
        if not weights:
            why = "first of others" if rank else "first weights"
            raise _TEXTS.wrong(
                "first weights", why=why, clue=clue, before=batch, **fill
            )
        why = "again" if batch < weights else "left out"
        raise _TEXTS.wrong("position", why=why, clue=clue, right=weights + 1, **fill)


def _place(steps, name, value):
    """The first step that has this value; None if no step has it."""
    return next((n for n, row in enumerate(steps) if row[name] == value), None)


def _refuse_weights(case, seen):
    """Refuse other weights than without a kill: bit for bit on as many ranks."""
    returned = [one["returned"] for one in seen]
    states = [state_of(one) for one in returned]
    if alone := case.expected.get("alone"):
        [state], right = states[-1:], alone["weights"]
        if "first" not in case.expected and isinstance(state, dict):
            off = gap(state, right)
            if off > CLOSE:
                raise _TEXTS.wrong("other ranks", off=off, close=CLOSE, **_where(case))
        refuse_weights(returned, right, hint=_TEXTS.hint("plain"))
        return
    whole = case.expected["whole"]
    if "first" in case.expected:
        _refuse_masks(case, seen)
        right = network(0.0, 0).state_dict()
        alike = isinstance(states[0], dict) and _kinds(states[0]) == _kinds(right)
        right = states[0] if alike else right
        refuse_weights(returned, right, hint=_TEXTS.hint("plain"))
        saves = sorted({0, *(step for one in seen for step in one["saves"])})
        seldom = any(b - a > EVERY for a, b in itertools.pairwise(saves))
        whole |= {"steps": [one["steps"] for one in seen], "weights": states}
        whole["seldom"] = seldom
        return
    for state, right in zip(states, whole["weights"]):
        if isinstance(state, str) or not _same(state, right):
            wrong = _first_other(case, seen)
            if "torn" in case.given:
                wrong.hint = _TEXTS.hint("not all")
            raise wrong


def _same(state, right):
    """Bit for bit; a tensor of another type is another one."""
    equal = (torch.equal(state[name], right[name]) for name in right)
    return _kinds(state) == _kinds(right) and all(equal)


def _kinds(state):
    return {name: (value.shape, value.dtype) for name, value in state.items()}


def _refuse_masks(case, seen):
    """Refuse dropout that is off, or the same on two ranks or in two steps."""
    masks = [row["mask"] for one in seen for row in one["steps"]]
    if len(set(masks)) < len(masks):
        raise _TEXTS.wrong("masks", found=len(set(masks)), right=len(masks))


def _first_other(case, seen):
    """The `Wrong` of the first step that begins otherwise than without a kill."""
    whole, total = case.expected["whole"]["steps"], case.expected["total"]
    pairs = [
        list(zip(one["steps"], steps[total - len(one["steps"]) :]))
        for one, steps in zip(seen, whole)
    ]
    where = {"ranks": len(seen), **_where(case)}
    for number in range(max(map(len, pairs))):
        rows = [pair[number] for pair in pairs if number < len(pair)]
        for name, (what, others) in _STEP.items():
            other = [row[name] != right[name] for row, right in rows]
            if True in other:
                rank = other.index(True)
                found, right = (row[name] for row in rows[rank])
                left = total - len(pairs[rank]) + number + 1
                why = others if rank else name
                clue = {"name": name, "number": number, "other": other}
                fill = {"rank": rank, "step": left, "what": what}
                fill |= {"found": found, "right": right}
                section = "rate" if name == "rate" else "other step"
                return _TEXTS.wrong(section, why=why, clue=clue, **fill, **where)
    return _TEXTS.wrong("other weights", **where)


def _refuse_beside(seen):
    """Refuse a group that is not left, and a file that several ranks write."""
    _TEXTS.refuse([("not left", [int(not one["left"]) for one in seen], 0, 0, 0)])
    names = [name for one in seen for name in one["files"]]
    for name in names:
        if names.count(name) > 1:
            raise _TEXTS.wrong("same file", name=name)


def failed(case: Case, wrong: Failed) -> str:
    """Go on if the check itself has killed the ranks; else say what was to be read."""
    error, faults = wrong.error, case.given["faults"]
    said = f"{error.kind} {error}"
    deadly = "die" in faults or "dying" in faults
    killed = error.kind == "killed" and any(name in said for name in _KILLS)
    gone = error.kind == "lost" or any(words in said for words in _GONE)
    if deadly and (killed or gone):
        return case.expected["proof"]  # the next launch decides
    raised = (
        name for name, all in _RAISED.items() if any(words in said for words in all)
    )
    why, full = next(raised, ""), "full" in faults
    loads = any("load" in line for line in wrong.lines)
    busy = any(words in wrong.hint for words in _BUSY)
    if error.kind in (*STUCK, "lost") and not busy or full and error.kind == "killed":
        why = "full and waiting" if full else "other steps"
    elif error.kind == "CheckpointException" and loads:
        why = "half written"
    elif full and not why and error.kind in _FULL:
        why = "full"
    elif why == "file missing" and "first" in case.expected:
        why = "no file"
    elif not why and "alone" in case.expected and error.rank == 2:
        why = "new rank"
    if error.kind == "CheckpointException":  # it tells where in PyTorch, at length
        lines = list(wrong.lines)
        wrong.lines = lines[lines.index("") :] if "" in lines else lines
    if "->" in said.partition("\n")[0] and case.world_size > 1:  # a name that is moved
        why = "one file"
    if why:
        wrong.hint = _TEXTS.hint(why, ranks=case.world_size)
    if "part" in case.given and why != "left over":
        wrong.hint = _moment(case)
    raise wrong
