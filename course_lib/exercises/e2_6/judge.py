"""Exercise 2.6, decided: a training in float16, its steps accumulated and clipped."""

import math
from collections.abc import Iterator
from itertools import groupby

import torch

from course_lib.exercises.attempt import Failed
from course_lib.exercises.compare import apart
from course_lib.exercises.e2_1.judge import refuse_more_memory
from course_lib.exercises.e2_2.judge import refuse_other_work
from course_lib.exercises.e2_6.reference import flat, trained
from course_lib.exercises.e2_6.trainings import BATCH, trainings
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed, many

_TEXTS = Texts("2.6")
_SHARE = 4  # 8 micro-batches may need a quarter of the memory of a whole batch
# float16 rounds otherwise where the sums are other ones: up to here it is the same
_NEAR = 0.06  # relative to how far the weights moved
_SAME = 0.15  # of two gradients, relative: sums of 16 bits differ, and mistakes do more
# what the scaler says, and the name of the hint
_REFUSED = {
    "unscale_() has already been called": "unscaled twice",
    "step() has already been called": "stepped twice",
    "unscale_() is being called after": "unscaled after step",
    "No inf checks were recorded": "no inf checks",
    "unscale FP16 gradients": "half weights",
    "_scale is None": "never scaled",
}
_LOSS = 5e-3  # relative; a number rounded to three digits is fine for a log


def cases(seed: int) -> Iterator[Case]:
    """Yield trainings in 8 micro-batches, in others with an overflow, and in one."""
    for given in trainings(seed):
        yield Case(given, expected=trained(given))


def judge(case: Case, seen) -> str:
    """Compare precision, steps, weights, scales and what is returned, then costs."""
    [rank] = seen
    given, training = case.given, case.expected
    parts, batches = given["parts"], len(given["batches"])
    _judge_precision(rank, BATCH // parts, parts * batches)
    _judge_steps(given, rank, training)
    _judge_scales(rank["scales"], training)
    _judge_returned(rank["returned"], training)
    if rank["changed"]:
        raise _TEXTS.wrong("overwritten")
    refuse_other_work(rank, rank["baseline"])
    told = refuse_more_memory(_TEXTS, "memory", rank, parts, _SHARE)
    if not training.skipped:
        return told
    return f"{many(parts, 'micro-batch')} where batch {training.skipped[0]} overflows"


def failed(case: Case, wrong: Failed) -> str:
    """Raise what a launch failed with, and the hint for what the scaler refuses."""
    told = (why for words, why in _REFUSED.items() if words in wrong.error.what)
    if why := next(told, ""):
        wrong.hint = _TEXTS.hint(why)
    raise wrong


def _judge_precision(rank, count, passes):
    """Refuse other micro-batches than asked for, and other types than float16."""
    _TEXTS.refuse([("other parts", rank["passes"], count, count, count)], batch=BATCH)
    _TEXTS.refuse([("passes", [len(rank["passes"])], passes, passes, math.inf)])
    types = sorted(set(map(str, rank["types"]))) or ["nothing"]
    if types != ["float16"]:
        why = "bfloat16" if "bfloat16" in types else "other"
        clue = {"types": types}
        raise _TEXTS.wrong("precision", why=why, clue=clue, types=listed(types))
    if not rank["kept"]:
        raise _TEXTS.wrong("weights cast")
    if not all(rank["fresh"]):
        raise _TEXTS.wrong("stale", number=rank["fresh"].index(False))
    if rank["losses_in_halves"]:
        raise _TEXTS.wrong("loss in 16 bits")


def _judge_steps(given, rank, training):
    """Compare steps and weights; what the first other step has tells the mistake."""
    right = [batch for batch in training.batches if not batch.skipped]
    found, every = len(rank["steps"]), len(training.batches)
    fill = {"batches": every, "parts": given["parts"], "found": found}
    fill |= {"right": len(right), "skipped": every - len(right), "most": 100 * _NEAR}
    differences = apart(rank["weights"], training.weights)
    if not differences:
        raise _TEXTS.wrong("other shapes")
    moved = flat(apart(training.weights, training.batches[0].before)).norm().item()
    off = flat(differences).norm().item() / moved
    near, fill["off"] = off <= _NEAR, 100 * off  # nan is not near
    if found <= len(right) and not near:
        _refuse_first_other(given, rank["steps"], right, fill | {"moved": moved})
    if found != len(right):
        again = len(rank["passes"]) > every * given["parts"]
        why = _why_other_steps(found, len(right), every, again)
        raise _TEXTS.wrong("steps", why=why, clue={"steps": found}, **fill)
    if not near:
        raise _TEXTS.wrong("weights", why="later", **fill)


def _why_other_steps(found, right, every, again):
    """The name of the hint for another number of steps."""
    if found == 0:
        return "no step"
    if found < right:
        return "fewer steps"
    if again and found <= every:
        return "again"
    return "overflow stepped" if found == every else "more steps"


def _refuse_first_other(given, steps, right, fill):
    """Refuse weights by the first step whose gradient is another one."""
    most = given["max_norm"]
    for number, ((grads, weights), batch) in enumerate(zip(steps, right)):
        whole, differences = batch.gradient(), apart(weights, batch.before)
        if not differences or flat(differences).norm() > _NEAR * fill["moved"]:
            return  # by no gradient
        if not apart(grads, whole):
            raise _TEXTS.wrong("weights", why="no gradient", **fill)
        found, wanted = flat(grads), flat(whole) * min(1.0, most / batch.norm)
        if (found - wanted).norm() <= _SAME * wanted.norm():
            continue
        why, told = _why_other_gradient(found, batch, given)
        ratio = (found.norm() / wanted.norm()).item()
        clue = {"ratio": ratio, "step": number, "grads": {"": found / wanted.norm()}}
        told |= {"step": number + 1, "ratio": f"{ratio:.2g}"}
        raise _TEXTS.wrong("weights", why=why, clue=clue, **fill | told)


def _why_other_gradient(found, batch, given):
    """The name of the hint for a gradient at a step, and what it tells."""
    most, parts = given["max_norm"], given["parts"]
    if not found.isfinite().all():
        return "not finite", {}
    if not found.any():
        return "all 0", {}
    whole, length = flat(batch.gradient()), found.norm().item()
    told = {"length": f"{length:.2g}", "bound": most, "norm": f"{batch.norm:.2g}"}
    right, told["parts"] = min(batch.norm, most), parts
    if length > 100 * right:
        return "still scaled", told
    if length < right / 100:
        return "too short", told
    if torch.dot(found, whole).item() > (1 - _SAME**2 / 2) * length * batch.norm:
        return _why_other_length(length, batch.norm, given), told
    counts = _counted(found, [flat(part) for part in batch.parts])
    if counts is None or parts == 1:
        return "no sum", told
    return "counts", told | {"counted": shown([round(one, 2) + 0.0 for one in counts])}


def _why_other_length(length, norm, given):
    """The name of the hint for a gradient of the right direction."""
    most, parts = given["max_norm"], given["parts"]
    if norm > most and _close(length, norm):
        return "not clipped"
    if parts > 1 and _close(length, parts * norm):
        return "not divided"
    if parts > 1 and _close(length * parts, norm):
        return "divided twice"
    clipped = parts > 1 and norm < most and abs(length - most) < 0.01 * most
    return "clipped too soon" if clipped else "other length"


def _close(one, other):
    return abs(one - other) <= _SAME * other


def _counted(found, parts):
    """How often each micro-batch's gradient is in another one, up to its length."""
    matrix = torch.stack(parts, 1).double()
    least = torch.linalg.lstsq(matrix, found.double()[:, None], driver="gelsd")
    solved = least.solution.flatten()
    rest = (matrix @ solved - found).norm() / found.norm()
    largest = solved.abs().max()
    return (solved / largest).tolist() if rest < _SAME and largest > 0 else None


def _judge_scales(found, training):
    """Compare the scales that the batches met, in order, and the last one."""
    right = [*(batch.scale for batch in training.batches), training.scale]
    found, right = ([scale for scale, _ in groupby(each)] for each in (found, right))
    if found != right:
        told = {
            name: _rounded(one) for name, one in (("found", found), ("right", right))
        }
        raise _TEXTS.wrong("scales", clue={"scales": found}, **told)


def _judge_returned(returned, training):
    """Compare the two lists: mean losses, and the batches whose step was left out."""
    pair = returned if isinstance(returned, list | tuple) else ()
    if len(pair) != 2 or not all(isinstance(each, list | tuple) for each in pair):
        raise _TEXTS.wrong("no lists", returned=shown(returned))
    if any(torch.is_tensor(one) for each in pair for one in each):
        raise _TEXTS.wrong("tensors")
    losses, numbers = ([number_of(one) for one in each] for each in pair)
    right = [batch.loss for batch in training.batches]
    off = [(one or 0.0) - other for one, other in zip(losses, right)]
    close = all(abs(one) <= _LOSS * loss for one, loss in zip(off, right))
    if not close or len(losses) != len(right):
        fill = {"logged": _rounded(losses), "right": _rounded(right)}
        clue = {"off": off, "count": len(losses)}
        raise _TEXTS.wrong("losses", clue=clue, **fill)
    if numbers != training.skipped:
        fill = {"found": shown(pair[1]), "right": shown(training.skipped)}
        raise _TEXTS.wrong("left out", clue={"numbers": numbers}, **fill)


def _rounded(numbers):
    return shown([number and float(f"{number:.3g}") for number in numbers])
