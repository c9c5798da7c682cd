"""Runs A to D of exercise 4.10, decided by what they gave on their ranks."""

from itertools import combinations

import torch

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap
from course_lib.exercises.e4_10 import reference
from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed, many, short

_TEXTS = Texts("4.10")
_ALIKE = 0.8  # share of places in which two masks of one chance in two never agree
_SHARE = 0.25  # a mask has at least as many zeros, and as many others


def run_wrong(section: str, case: Case, **fill) -> Wrong:
    """Return the `Wrong` of a section, filled in with the run and its ranks."""
    where = {"run": case.given["run"], "ranks": case.world_size}
    return _TEXTS.wrong(section, **where, **fill)


def judge_weights(case: Case, seen) -> None:
    """Decide on run A or C: the same weights on all ranks, those of one process."""
    states = states_of(case, seen)
    refuse_drift(case, states)
    off = gap(states[0], case.expected["weights"])
    if off <= CLOSE or _is_of_its_own(case, seen[0], states[0]):
        return
    free = case.expected.get("free")
    if free and gap(states[0], free) <= CLOSE:
        longest = case.given["arguments"][-1]
        raise run_wrong("not clipped", case, longest=longest)
    clue = {"apart": apart(states[0], case.expected["weights"])}
    section = "weights A" if case.given["run"] == "A" else "weights C"
    raise run_wrong(section, case, clue=clue, off=off, close=CLOSE)


def _is_of_its_own(case, one, state):
    """Whether run A is right from weights that it drew in another order."""
    start = one["starts"][0] if one["starts"] else {}
    if case.given["run"] != "A" or gap(start, state) == float("inf"):
        return False
    batches = case.given["arguments"][0]
    return gap(state, baseline.weights_after(batches, start=start)) <= CLOSE


def states_of(case: Case, seen, right: dict | None = None) -> list[dict]:
    """Return the weights of each rank, of the names and shapes of the right ones."""
    right = right or case.expected["weights"]
    for rank, one in enumerate(seen):
        for result in one["results"] or [{}]:
            _refuse_other(case, rank, result, right)
    return [one["results"][0]["weights"] for one in seen]


def _refuse_other(case, rank, result, right):
    """Refuse what has not the parts of a right result, or another network's weights."""
    parts = case.given["parts"]
    found = result.get("other", result.get("weights"))
    if "other" in result or not isinstance(found, dict):
        expected = listed(parts)
        fill = {"rank": rank, "found": shown(found), "expected": expected}
        raise run_wrong("other values", case, **fill)
    if _shapes(found) != _shapes(right):
        fill = {"rank": rank, "found": short(found), "expected": short(right)}
        raise run_wrong("other names", case, **fill)


def _shapes(state):
    return {name: part.shape for name, part in state.items()}


def refuse_drift(case: Case, states: list[dict]) -> None:
    """Refuse ranks that end with different weights."""
    for rank, state in enumerate(states):
        offs = {
            name: gap({0: states[0][name]}, {0: part}) for name, part in state.items()
        }
        name = max(offs, key=lambda name: offs[name])
        if offs[name] > CLOSE:
            section = "drift" if case.given["run"] == "A" else "drift elsewhere"
            raise run_wrong(section, case, name=name, rank=rank, off=offs[name])


def judge_dropout(case: Case, seen) -> None:
    """Decide on run B: masks differ between ranks and steps, not between two runs."""
    start = seen[0]["starts"][0] if seen[0]["starts"] else {}
    states = states_of(case, seen, reference.small().state_dict())
    masks = [one["results"][0]["masks"] for one in seen]
    batches = case.given["arguments"][0]
    for rank, own in enumerate(masks):
        for step, (images, _) in enumerate(batches):
            share = images[rank :: len(seen)]
            mask = own[step] if isinstance(own, list) and step < len(own) else None
            if not _is_mask(mask, share):
                fill = {"step": step + 1, "rank": rank, "found": shown(mask)}
                raise run_wrong("masks", case, **fill)
    _refuse_alike(case, masks)
    for rank, one in enumerate(seen):
        again = [result["masks"] for result in one["results"]]
        seed, other = case.given["arguments"][1], case.given["others"][-1][1]
        if not all(_same(masks[rank], same) for same in again[:-1]):
            raise run_wrong("other draws", case, seed=seed, rank=rank)
        if _same(masks[rank], again[-1]):
            raise run_wrong("any seed", case, seed=seed, other=other, rank=rank)
    refuse_drift(case, states)
    right = reference.masked(start, batches, masks) if _fits(start) else {}
    off = gap(states[0], right)
    if off > CLOSE:
        raise run_wrong("weights B", case, off=off, close=CLOSE)


def _fits(start):
    right = reference.small().state_dict()
    return isinstance(start, dict) and _shapes(start) == _shapes(right)


def _is_mask(mask, images):
    """Whether a tensor is a mask of zeros and twos in the shape of images."""
    if not torch.is_tensor(mask) or mask.shape != images.shape:
        return False
    if mask.dtype != images.dtype or not ((mask == 0) | (mask == 2)).all():
        return False
    return _SHARE < (mask == 0).float().mean().item() < 1 - _SHARE


def _same(masks, again):
    return (
        isinstance(again, list)
        and len(again) >= len(masks)
        and all(
            torch.is_tensor(two) and one.equal(two) for one, two in zip(masks, again)
        )
    )


def _refuse_alike(case, masks):
    """Refuse ranks, or steps of a rank, that drop the same pixels."""
    seed = case.given["arguments"][1]
    for step, row in enumerate(zip(*masks)):
        for (first, one), (second, two) in combinations(enumerate(row), 2):
            share = (one == two).float().mean().item()
            if share > _ALIKE:
                fill = {"first": first, "second": second, "share": share, "seed": seed}
                clue = {"alike": (first, second)}
                raise run_wrong("same masks", case, clue=clue, step=step + 1, **fill)
    for rank, own in enumerate(masks):
        for (first, one), (second, two) in combinations(enumerate(own, start=1), 2):
            if (one == two).float().mean().item() > _ALIKE:
                fill = {"rank": rank, "first": first, "second": second}
                raise run_wrong("same steps", case, **fill)


def judge_stop(case: Case, seen) -> None:
    """Decide on run D: all ranks stop after the step in which one process does."""
    states, right = states_of(case, seen), case.expected["steps"]
    steps = [number_of(one["results"][0]["steps"]) for one in seen]
    ends = listed(shown(one["results"][0]["steps"]) for one in seen)
    if len(set(steps)) > 1 or None in steps:
        raise run_wrong("steps apart", case, steps=ends, right=right)
    if steps[0] != right:
        ways = case.expected["others"].items()
        why = next((way for way, end in ways if end == steps[0] != right), "steps")
        ended = many(int(steps[0] or 0), "step")
        raise run_wrong("steps", case, why=why, steps=ended, right=right)
    refuse_drift(case, states)
    off = gap(states[0], case.expected["weights"])
    if off > CLOSE:
        raise run_wrong("weights D", case, off=off, close=CLOSE)
