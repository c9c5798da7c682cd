"""Exercise 9.3, decided: a GPT in shards, within bounds of calls and of memory."""

import random
from collections.abc import Iterator

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.e9_3.reference import counts, cut, trained
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.gpt import GPT
from course_lib.text import listed, many, size

_TEXTS = Texts("9.3")
_STEPS = 2
_SAMPLES = 2  # of a micro-batch
_BLOCKS = 6  # may lie on a rank whole: gathered, computed and sent at once
_CLOSE = 1e-3  # of gradients, relative
_ROUNDED = 0.05  # of gradients in 16 bits
_MOVED = 0.1  # relative to how far AdamW moved, which steps by rounding errors, too
_NAMED = 3  # weights, in a sentence
_SETTINGS = {
    "class": "AdamW",
    "lr": 1e-3,
    "weight_decay": 0.01,
    "eps": 1e-8,
    "amsgrad": False,
}
# what PyTorch says, and the name of the hint
_REFUSED = {
    "no attribute 'set_requires_gradient_sync'": "not sharded yet",
    "no attribute 'no_sync'": "no no_sync",
    "aten._fused_adamw_": "some whole",  # a step over both kinds
    "aten._foreach_": "some whole",
    "mixed torch.Tensor and DTensor": "mixed",
    "is shared with a parameter": "tied",
}


def cases(seed: int) -> Iterator[Case]:
    """Yield micro-batches on two ranks, then whole shares on three.

    Some weights cannot be cut into three equal parts.
    """
    numbers = random.Random(seed)
    for ranks in (2, 3):
        layers, width, k = 8, 64, 4
        if seed:
            layers, width = numbers.randint(7, 9), numbers.choice((56, 64, 72))
            k = numbers.randint(4, 6)
        k = k if ranks == 2 else 1
        with baseline.seeded(100 * seed + ranks):
            model = GPT(context=8, width=width, layers=layers)
            shape = ranks, _STEPS, _SAMPLES * k, 5
            tokens, targets = (torch.randint(96, shape) for _ in range(2))
        batches = [list(zip(*pair)) for pair in zip(tokens, targets)]
        given = {"model": model, "batches": batches, "k": k}
        yield Case(given, ranks, expected=trained(given))


def judge(case: Case, seen) -> str:
    """Look at shards, passes, gradients and weights of each step, then at the costs."""
    steps = [len(one["steps"]) for one in seen]
    _TEXTS.refuse([("steps", steps, _STEPS, _STEPS, _STEPS)])
    for number in range(_STEPS):
        found = [one["steps"][number] for one in seen]
        last = number == _STEPS - 1
        after = [one["end"] if last else one["steps"][number + 1] for one in seen]
        _refuse_whole(case, found, number)
        held, count = [one["taken"] for one in found], len(found[0]["dims"])
        _TEXTS.refuse([("taken", held, count, count, count)], step=number + 1)
        _refuse_other_passes(case.given["k"], found, {"step": number + 1})
        _refuse_gradients(case, found, number)
        _refuse_settings(found, number)
        _refuse_whole(case, after, number)
        _refuse_weights(case, after, number)
    return _judge_costs(case, seen)


def failed(case: Case, wrong: Failed) -> str:
    """Raise what a launch failed with, and the hint for what FSDP refuses."""
    told = (why for words, why in _REFUSED.items() if words in wrong.error.what)
    if why := next(told, ""):
        wrong.hint = _TEXTS.hint(why)
    raise wrong


def _refuse_whole(case, found, number):
    """Refuse weights of which a rank does not hold its shard alone."""
    weights = dict(case.given["model"].named_parameters())
    names, dims, ranks = list(weights), found[0]["dims"], len(found)
    for rank, one in enumerate(found):
        fill = {"step": number + 1, "rank": rank, "ranks": ranks}
        if len(one["dims"]) != len(names):
            fill |= {"found": len(one["dims"]), "right": len(names)}
            raise _TEXTS.wrong("other weights", **fill)
        cuts = zip(weights.items(), one["dims"])
        whole = [name for (name, p), dim in cuts if not 0 <= dim < p.dim()]
        if whole or one["dims"] != dims:
            every = len(whole) == len(names)
            why = "all whole" if every else "some whole"
            why = "gathered" if one["fsdp"] else why
            raise _TEXTS.wrong("whole", why=why, names=_some(whole or names), **fill)
    right = cut(case.expected[number].before, dims, ranks)
    for rank, (one, part) in enumerate(zip(found, right)):
        fill = {"step": number + 1, "rank": rank, "ranks": ranks}
        if one["weights"].shape != part.shape:
            fill |= {"found": f"{len(one['weights']):,}", "right": f"{len(part):,}"}
            raise _TEXTS.wrong("share", **fill)


def _some(names):
    more = len(names) - _NAMED
    return listed([*names[:_NAMED], *([f"{more:,} more"] if more > 0 else [])])


def _refuse_other_passes(k, found, where):
    right = [_SAMPLES] * k
    for rank, one in enumerate(found):
        if one["passes"] != right:
            fill = {"found": shown(one["passes"]), "right": shown(right), "k": k}
            fill |= where | {"rank": rank, "ranks": len(found)}
            raise _TEXTS.wrong("passes", clue={"passes": one["passes"]}, **fill)


def _refuse_gradients(case, found, number):
    """Compare the shards of all ranks, one after the other, with the right ones."""
    dims, step = found[0]["dims"], number + 1
    right = torch.cat(cut(case.expected[number].gradients, dims, len(found)))
    for rank, one in enumerate(found):
        if one["gradients"].shape != one["weights"].shape:
            sizes = (f"{len(one[name]):,}" for name in ("gradients", "weights"))
            fill = {"step": step, "rank": rank, "ranks": len(found)}
            raise _TEXTS.wrong(
                "no gradients", **fill | dict(zip(("found", "right"), sizes))
            )
    gradients = torch.cat([one["gradients"] for one in found])
    off = ((gradients - right).norm() / right.norm()).item()
    if off <= _CLOSE:
        return
    fill = {"step": step, "off": 100 * off, "most": 100 * _CLOSE}
    why, told = _why(case, number, gradients, right, dims)
    clue = {"step": number, "grads": {"": gradients / right.norm()}}
    raise _TEXTS.wrong("gradients", why=why, clue=clue, **fill | told)


def _why(case, number, gradients, right, dims):
    """The name of the hint for other gradients, and what it tells."""
    length, expected = gradients.norm(), right.norm()
    if not length.isfinite() or not length > 0:
        return "no number", {}
    ratio = (length / expected).item()
    if (gradients - ratio * right).norm() <= _CLOSE * length:
        return "other length", {"ratio": f"{ratio:.3g}"}
    if (gradients - right).norm() <= _ROUNDED * expected:
        return "rounded", {}
    found = counts(case.given, case.expected[number].before, number, gradients, dims)
    if found is None:
        return "no sum", {}
    rows = (", ".join(f"{round(one, 2) + 0.0:g}" for one in row) for row in found)
    told = "; ".join(f"{row} on rank {rank}" for rank, row in enumerate(rows))
    return "counts", {"counts": told}


def _refuse_settings(found, number):
    """Refuse another optimizer than the one that is asked for, or other settings."""
    for rank, one in enumerate(found):
        for settings in one["settings"]:
            others = [key for key in _SETTINGS if settings[key] != _SETTINGS[key]]
            if others:
                told = (
                    listed([f"{key} {shown(row[key])}" for key in others])
                    for row in (settings, _SETTINGS)
                )
                fill = dict(zip(("found", "right"), told))
                fill |= {"step": number + 1, "rank": rank, "ranks": len(found)}
                raise _TEXTS.wrong("settings", **fill)


def _refuse_weights(case, after, number):
    """Compare shards by how far the step moves the weights."""
    dims, step = after[0]["dims"], case.expected[number]
    start, right = (
        torch.cat(cut(weights, dims, len(after)))
        for weights in (step.before, step.after)
    )
    weights = torch.cat([one["weights"] for one in after])
    moved = (right - start).norm()
    off = ((weights - right).norm() / moved).item()
    if not off <= _MOVED:
        clue = {"step": number, "apart": {"": (weights - right) / moved}}
        fill = {"step": number + 1, "off": 100 * off, "most": 100 * _MOVED}
        raise _TEXTS.wrong("weights", clue=clue, **fill)


def _judge_costs(case, seen):
    """Compare calls, then peaks with the bounds, and say what was held."""
    model, k, ranks = case.given["model"], case.given["k"], len(seen)
    most, allowed = len(model.blocks) + 1, bound(model, ranks, k)
    every = [
        (number, rank, one["steps"][number])
        for number in range(_STEPS)
        for rank, one in enumerate(seen)
    ]
    for number, rank, step in every:
        fill = {"step": number + 1, "rank": rank, "ranks": ranks, "k": k}
        if not 1 <= step["scatters"] <= most:
            fill |= {"found": step["scatters"], "right": most}
            raise _TEXTS.wrong("scatters", clue=_calls(step), **fill)
    for number, rank, step in every:
        fill = {"step": number + 1, "rank": rank, "ranks": ranks}
        if step["peak"] > allowed:
            fill |= {"found": size(step["peak"]), "right": size(allowed)}
            clue = _calls(step) | {"peak": step["peak"] / allowed}
            raise _TEXTS.wrong("memory", clue=clue, **fill)
    peak = size(max(step["peak"] for _, _, step in every))
    told = f"{many(k, 'micro-batch')} on {many(ranks, 'rank')}"
    return f"{told} with {peak} of {size(allowed)} that are allowed"


def _calls(step):
    return {name: step[name] for name in ("scatters", "gathers")}


def bound(model: GPT, ranks: int, parts: int) -> int:
    """Return the bytes that a rank may hold in forward and backward, as the task says.

    The gradients of several micro-batches, `parts`, wait whole for the last of them.
    """
    whole, block = baseline.size(model), baseline.size(model.blocks[0])
    gradients = whole if parts > 1 else whole // ranks
    return 3 * whole // ranks + gradients + _BLOCKS * block
