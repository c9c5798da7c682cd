"""Exercise 4.6, decided: a step whose loss is a mean over tokens of all ranks."""

import operator
from collections.abc import Iterator

import torch

from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import (
    CLOSE,
    apart,
    draw_steps,
    gap,
    largest,
    near,
)
from course_lib.exercises.e4_6.trainings import (
    trained,
    trainings,
    without_targets,
)
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many

_TEXTS = Texts("4.6")
_NOTES, _CALLS = 64, 2  # bytes and collectives beside the gradients
_ROUNDED = 0.03  # relative error of a gradient in half precision
_SAME = 0.01  # of how often a target counts
_CRASHED = ("lost", "killed")  # kinds of launches in which gloo met other calls


def cases(seed: int) -> Iterator[Case]:
    """Yield two steps each on two, three and five ranks, and on one.

    Expected are the steps of one process that has all pairs.
    """
    for number, (ranks, given) in enumerate(trainings(seed)):
        yield Case(given, ranks, trace=not number, expected=trained(given))


def judge(case: Case, seen) -> str:
    """Look at each step: what travelled, gradient, weights, loss; then its cost."""
    for number, step in enumerate(case.expected):
        steps = [one["steps"][number] for one in seen]
        where = {"step": number + 1, "ranks": case.world_size}
        updates = [one["updates"] for one in steps]
        _TEXTS.refuse([("updates", updates, 1, 1, 1)], **where)
        for rank, one in enumerate(steps):
            near_it = _off(one["gradients"], step.gradient) <= CLOSE
            _refuse_sent(one["sent"], step, near_it, where | {"rank": rank})
        before = case.expected[number - 1].gradient if number else None
        for rank, one in enumerate(steps):
            _refuse_gradient(one["gradients"], step, before, where | {"rank": rank})
        _refuse_weights([one["weights"] for one in steps], step.weights, where)
        for rank, one in enumerate(steps):
            _refuse_loss(one["returned"], step, where | {"rank": rank})
        sizes = [[len(x) for x, _ in pairs] for pairs in case.given["steps"][number]]
        for rank, one in enumerate(steps):
            _TEXTS.refuse(_costs(one, max(sizes[rank])), **where | {"rank": rank})
    return str(case.world_size)


def _off(found, right):
    """By how much a gradient is off, relative to its largest number; inf for others."""
    return gap(found, right) / largest(right)


def _refuse_sent(sent, step, right, where):
    """Refuse all but one all-reduce of all gradients, and a few numbers beside it.

    Where it lies is a matter of the gradient: if that is `right`, it is so, too.
    """
    size = sum(grad.nbytes for grad in step.gradient.values())
    sent = sent or [[]]  # by the number of forward passes that came before
    every = [count for calls in sent for _, count in calls]
    least = _NOTES + 1
    if sum(count >= size for count in every) == 1 and sum(every) < 1.5 * size:
        least = size  # what is smaller are no parts of the gradients
    large = [[call for call in calls if call[1] >= least] for calls in sent]
    *before, last = [[count for _, count in calls] for calls in large]
    if why := _why_other_sent(large, size, right, where):
        fill = {"sent": listed(map(sum, [*before, last])), "passes": len(before)}
        calls = many(sum(map(len, large)), "call")
        clue = {"sent": [*before, last]}
        fill |= {"calls": calls, "size": size}
        raise _TEXTS.wrong("sent", why=why, clue=clue, **fill, **where)
    notes = [count for count in every if count < least]
    if len(notes) > _CALLS or sum(notes) > _NOTES:
        fill = {"notes": sum(notes), "count": many(len(notes), "call")}
        fill |= {"most": _NOTES, "few": _CALLS}
        raise _TEXTS.wrong("notes", clue={"notes": notes}, **fill, **where)


def _why_other_sent(large, size, right, where):
    """The name of the hint for large calls that are not one of all gradients."""
    *before, last = large
    calls = [call for after in large for call in after]
    if not calls:
        return "nothing sent" if where["ranks"] > 1 else ""
    if any(name != "all_reduce" for name, _ in calls):
        return "other collective"
    if len(calls) > 1:
        return "sent each time" if any(before) else "sent in pieces"
    if not last and not right:
        return "sent too early"
    return "" if size <= calls[0][1] <= size + _NOTES else "other size"


def _refuse_gradient(found, step, before, where):
    """Compare the gradient of a step; how often each target counts tells mistakes."""
    right = step.gradient
    differences = apart(found, right)
    if not differences:
        raise _TEXTS.wrong("no gradient", **where)
    off = _off(found, right)
    if off <= CLOSE:
        return
    if not _flat(found).isfinite().all():
        raise _TEXTS.wrong("no numbers", why=_why_no_numbers(step), **where)
    if off < _ROUNDED:
        raise _TEXTS.wrong("rounded", off=100 * off, most=100 * CLOSE, **where)
    stale, counts = _counted(found, step, before)
    if counts is None:
        clue = {"step": where["step"], "apart": differences}
        raise _TEXTS.wrong("no sum", clue=clue, off=off, **where)
    if abs(stale) > _SAME:
        raise _TEXTS.wrong("stale", clue={"stale": stale}, stale=stale, **where)
    clue = {"step": where["step"], "counts": list(counts.values())}
    section, why, told = _why_other_counts(counts, step, where["ranks"])
    raise _TEXTS.wrong(section, why=why, clue=clue, **told, **where)


def _flat(gradient):
    """All numbers of a gradient in one row, exact enough for sums."""
    return torch.cat([part.detach().flatten().double() for part in gradient.values()])


def _counted(found, step, before):
    """How often a gradient has that of the step before, and real targets of each pair.

    1 is right for pairs; None if it is no sum of these.
    """
    parts = {place: part for place, part in step.parts.items() if part.real}
    every = [_flat(part.gradient) / step.total("real") for part in parts.values()]
    every.append(_flat(before) if before else torch.zeros_like(every[0]))
    matrix, wanted = torch.stack(every, 1), _flat(found)
    least = torch.linalg.lstsq(matrix, wanted[:, None], driver="gelsd")
    solved = least.solution.flatten()
    if (matrix @ solved - wanted).norm() > _SAME * wanted.norm():
        return 0.0, None
    *counts, stale = solved.tolist()
    return stale, dict(zip(parts, counts))


def _why_no_numbers(step):
    return "empty" if not all(p.real for p in step.parts.values()) else "not finite"


def _why_other_counts(counts, step, ranks):
    """The name of the sentence and of the hint for targets that count otherwise."""
    first, *_ = counts.values()
    if all(_alike(one, first) for one in counts.values()):
        why = _why_other_length(first, step, ranks)
        return "all count", why, {"times": f"{first:.3g}"}
    by_rank = {}
    for (rank, _), one in counts.items():
        by_rank.setdefault(rank, []).append(f"{round(one, 3) + 0.0:.2g}")
    lines = (f"{', '.join(each)} (rank {rank})" for rank, each in by_rank.items())
    told = {"counts": "; ".join(lines)}
    return "some count", _why_unequal(counts, step), told


def _why_other_length(times, step, ranks):
    """The name of the hint where all targets count alike, but not once."""
    real, places = step.total("real"), len({place for _, place in step.parts})
    padded = real / step.total("targets")
    for why, other in (
        ("nothing counts", 0),
        ("divided by ranks", 1 / ranks),
        ("multiplied by ranks", ranks),
        ("micro-batches", 1 / places),
        ("micro-batches", 1 / places / ranks),
        ("padding", padded),
        ("padding", padded / ranks),
        ("not divided", real),
        ("not divided", real / ranks),
        ("not divided", real / places),
        ("not divided", real / ranks / places),
    ):
        if _alike(times, other):
            return why
    return "other length"


def _why_unequal(counts, step):
    """The name of the hint where some targets count more than others."""
    real, own = {place: step.parts[place].real for place in counts}, {}
    for (rank, _), number in real.items():
        own[rank] = own.get(rank, 0) + number
    if all(_alike(one, 0) or _alike(one, 1) for one in counts.values()):
        return "lost"
    if _constant(one * real[place] for place, one in counts.items()):
        return "mean of means"
    if _constant(one * own[place[0]] for place, one in counts.items()):
        return "own count"
    return "unequal"


def _constant(numbers):
    first, *others = numbers
    return all(_alike(one, first) for one in others)


def _alike(one, other):
    return abs(one - other) <= _SAME * max(abs(other), 0.01)


def _refuse_weights(weights, expected, where):
    """Compare the weights of all ranks after a step with those of one process."""
    off = max(gap(one, expected) for one in weights)
    if not off <= CLOSE:
        clue = {
            "step": where["step"],
            "apart": [apart(one, expected) for one in weights],
        }
        raise _TEXTS.wrong("other weights", clue=clue, off=off, close=CLOSE, **where)


def _refuse_loss(returned, step, where):
    """Refuse all but the mean of the losses of all real targets, as a float."""
    right = step.total("loss") / step.total("real")
    fill = {"returned": shown(returned), "expected": f"{right:.5g}", **where}
    if type(returned) is not float:
        why = "tensor" if torch.is_tensor(returned) else "no float"
        raise _TEXTS.wrong("returned", why=why, **fill)
    if near(returned, right):
        return
    why, fill["returned"] = _why_other_loss(returned, step, where), f"{returned:.5g}"
    clue = {"ratio": returned / right, "rank": where["rank"], "step": where["step"]}
    raise _TEXTS.wrong("returned", why=why, clue=clue, **fill)


def _why_other_loss(found, step, where):
    """The name of the hint for another loss: what it is."""
    if found != found:
        return "nan" if _why_no_numbers(step) == "empty" else "other loss"
    ranks, total, real = where["ranks"], step.total("loss"), step.total("real")
    by_rank = [
        [part for (own, _), part in step.parts.items() if own == rank]
        for rank in range(ranks)
    ]
    sums = [sum(part.loss for part in parts) for parts in by_rank]
    few = [max(sum(part.real for part in parts), 1) for parts in by_rank]
    own, own_count = sums[where["rank"]], few[where["rank"]]
    means = sum(part.loss / max(part.real, 1) for part in step.parts.values())
    for why, other in (
        ("times ranks", total / real * ranks),
        ("times ranks", total / real / ranks),
        ("own loss", own / own_count),
        ("own loss", own / real),
        ("own loss", own / real * ranks),
        ("loss of means", means / len(step.parts)),
        ("loss of means", sum(map(operator.truediv, sums, few)) / ranks),
        ("loss and padding", total / step.total("targets")),
        ("sum of losses", total),
    ):
        if near(found, other, 10 * CLOSE):
            return why
    return "other loss"


def _costs(one, most):
    """Memory and work of a rank, which may leave out padding."""
    needed, flops = one["baseline"], one["flops"]
    return (
        ("whole batch", [max(one["passes"], default=0)], most, 0, most),
        ("late backward", [one["graphs"]], 1, 0, 1),
        ("work", [flops], needed["all"], 0.5 * needed["real"], 1.2 * needed["all"]),
    )


def failed(case: Case, wrong: Failed) -> str:
    """Say what ranks with nothing but padding have to do with a launch that failed."""
    error, empty = wrong.error, without_targets(case.given["steps"])
    other = any(note.startswith("Collective") for note in error.notes)
    if empty and (error.kind in STUCK + _CRASHED or other):
        wrong.hint = _TEXTS.hint("skipped", places=listed(map(str, empty)))
        wrong.clue = None  # the words differ by who gives up first
    elif empty and error.kind == "ZeroDivisionError":
        wrong.hint = _TEXTS.hint("divided by 0")
    raise wrong


def draw(case: Case, seen):
    """Draw the timeline of the second step."""
    return draw_steps(seen.trace, 0, 1)
