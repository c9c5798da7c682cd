"""Exercise 1.3, decided: micro-batches that keep two devices busy."""

import random
import re
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.attempt import BUSY, Failed
from course_lib.exercises.e1_3.observe import BLOCKS
from course_lib.exercises.e2_2.judge import judge_gradient
from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.texts import Texts
from course_lib.text import listed, size

_TEXTS = Texts("1.3")
_FASTER = 1.22
_WIDTH, _SAMPLES, _CLASSES = 1024, 2048, 10
_WHERE = f"{_SAMPLES:,} samples on two devices"
_LEAST = 0.95  # of the work and of the bytes that the whole batch needs
_MOST = 1.2
_FEW = 3  # micro-batches: with less the bubble alone makes a step too long
_MANY = 12  # from here on what each one repeats costs more than the bubble it saves


def cases(seed: int) -> Iterator[Case]:
    """Yield two parts of equal work, f32[n, 1024] to f32[n, 10]; labels in no order."""
    depth = 4 if not seed else random.Random(seed).choice((4, 6))
    with baseline.seeded(seed):
        # smooth: of eight million ReLUs one that stands at 0 is rounded to either side
        wide = [[nn.Linear(_WIDTH, _WIDTH), nn.Tanh()] for _ in range(depth)]
        layers = [layer for pair in wide for layer in pair]
        last = nn.Linear(_WIDTH, _CLASSES)
        parts = nn.Sequential(*layers[:depth]), nn.Sequential(*layers[depth:], last)
        x, labels = torch.rand(_SAMPLES, _WIDTH), torch.randint(_CLASSES, (_SAMPLES,))
    yield Case({"parts": parts, "x": x, "labels": labels})


def judge(case: Case, seen) -> str:
    """Compare the gradients, then the work, what crosses and the time."""
    [rank] = seen
    needed, crossed = rank["baseline"], sum(rank["crossings"])
    clue = {"crossed": crossed / needed["crossed"]}
    fill = {"crossed": size(crossed), "expected": size(needed["crossed"])}
    bytes_wrong = not _LEAST <= clue["crossed"] <= _MOST
    more = _TEXTS.hint("also bytes", **fill) if bytes_wrong else ""
    _judge_gradients(rank, needed["each"], more)
    _judge_work(rank, needed)
    if bytes_wrong:
        raise _TEXTS.wrong("other bytes", clue=clue, **fill)
    gain = needed["seconds"] / rank["seconds"] if rank["seconds"] > 0 else 0.0
    if not gain >= _FASTER:
        facts = _facts(rank["trace"], rank["names"])
        slow = {"took": 1e3 * rank["seconds"], "whole": 1e3 * needed["seconds"]}
        slow |= {"gain": gain, "least": _FASTER, "bubble": facts["count"] + 1}
        why = _why_slow(**facts)
        if why in ("held up", "few") and _is_behind(rank["trace"], rank["names"]):
            why = "behind"
        slow |= {"why": why, "count": facts["count"]}
        raise _TEXTS.wrong("slow", clue=facts, also={"gain": gain}, **slow)
    word = rank["trace"].source.partition(":")[0]
    return f"{gain:.2f} times as fast as the whole batch at once ({word})"


def _judge_gradients(rank, each, more):
    of = {"noun": "mean losses", "of": "eighths of the batch"}
    # gradients of the classes look like samples where a micro-batch is square
    sizes = sorted({count for count in rank["passes"] if count > _CLASSES})
    try:
        judge_gradient(rank, each, [1 / BLOCKS] * BLOCKS, where=_WHERE, **of)
    except Wrong as wrong:
        wrong.hint = f"{wrong.hint} {more}".strip()
        if len(sizes) > 1:
            fill = {"sizes": listed(sizes), "samples": _SAMPLES}
            wrong.hint = _TEXTS.hint("other lengths", **fill)
        raise


def _judge_work(rank, needed):
    """Refuse work on the CPU, on the other device, left out or done twice."""
    shares = {n: rank["flops"].get(n, 0) / needed["flops"][n] for n in rank["names"]}
    others = sorted(set(rank["flops"]) - set(rank["names"]))
    if not others and all(_LEAST <= share <= _MOST for share in shares.values()):
        return
    told = [f"{name} computes {100 * share:.0f} %" for name, share in shares.items()]
    told += [f"{name} computes, too" for name in others]
    clue = {"shares": list(shares.values()), "others": others}
    raise _TEXTS.wrong("other work", clue=clue, told=listed(told))


def _facts(trace, names):
    """How many micro-batches there were, and which order devices worked in."""
    (forward, backward), (second, _) = (_regions(trace, name) for name in names)
    turns = bool(forward and backward) and backward[0].start < forward[-1].start
    late = bool(forward and second) and second[0].start >= forward[-1].stop
    return {"count": len(forward), "turns": turns, "late": late}


def _is_behind(trace, names):
    """True if the second device gets its first part when two are done on the first.

    That one went from the first to the second without a pause: nobody waited.
    """
    (first, _), (second, _) = (_regions(trace, name) for name in names)
    if len(first) < 2 or not second:
        return False
    one, other = first[:2]
    # a copy may stand between them, the part on the second device may not
    paused = other.start - one.stop > one.stop - one.start
    return not paused and second[0].start >= other.stop


def _regions(trace, device):
    """The forward and the backward events of a device, in order."""
    events = trace.select(device, "compute")
    return [
        [event for event in events if re.match(rf"{role}( \d+)?$", event.name)]
        for role in ("forward", "backward")
    ]


def _why_slow(count, *, turns, late):
    reasons = {
        "whole batch": count < 2,
        "turns": turns,
        "late": late,
        "many": count >= _MANY,
        "few": count < _FEW,
    }
    return next((why for why, holds in reasons.items() if holds), "held up")


def failed(case: Case, wrong: Failed) -> str:
    """Tell why a line may compute for so long."""
    if wrong.hint == BUSY:
        wrong.hint = _TEXTS.hint("too long")
    raise wrong


def draw(case: Case, seen):
    """Draw the timeline of both devices."""
    from course_lib.plots.timeline import plot_timeline

    return plot_timeline(seen[0]["trace"])
