"""Exercise 1.3, decided: micro-batches that keep two devices busy."""

import random
import re
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.observe.e1_3 import BLOCKS, observe
from course_lib.exercises.texts import Texts
from course_lib.text import listed, size

_TEXTS = Texts("1.3")
_FASTER = 1.25
_WIDTH, _SAMPLES, _CLASSES = 1024, 2048, 10
_LEAST = 0.95  # of the work and of the bytes that the whole batch needs
_MOST = 1.2
_REST = 1e-3  # of a gradient that no sum over blocks of the batch explains
_NEARLY = 0.03  # relative error of a gradient that is nearly right
_FEW = 3  # micro-batches: with less the bubble alone makes a step too long
_MANY = 12  # from here on what each one repeats costs more than the bubble it saves


def cases(seed: int) -> Iterator[Case]:
    """Two parts of equal work, f32[n, 1024] to f32[n, 10]; labels in no order."""
    depth = 4 if not seed else random.Random(seed).choice((4, 6))
    with baseline.seeded(seed):
        wide = [[nn.Linear(_WIDTH, _WIDTH), nn.ReLU()] for _ in range(depth)]
        layers = [layer for pair in wide for layer in pair]
        last = nn.Linear(_WIDTH, _CLASSES)
        parts = nn.Sequential(*layers[:depth]), nn.Sequential(*layers[depth:], last)
        x, labels = torch.rand(_SAMPLES, _WIDTH), torch.randint(_CLASSES, (_SAMPLES,))
    yield Case({"parts": parts, "x": x, "labels": labels})


def judge(case: Case, seen) -> str:
    """Compare the gradients, then the work, what crosses and the time."""
    [rank] = seen
    needed, crossed = rank["baseline"], sum(rank["crossings"])
    fill = {"crossed": size(crossed), "expected": size(needed["crossed"])}
    if rank["moved"]:
        raise _TEXTS.wrong("moved")
    if not rank["off"] <= CLOSE:
        raise _other_gradients(rank, needed, **fill)
    _judge_work(rank, needed)
    if not _LEAST <= crossed / needed["crossed"] <= _MOST:
        clue = {"crossed": crossed / needed["crossed"]}
        raise _TEXTS.wrong("other bytes", clue=clue, **fill)
    gain = needed["seconds"] / rank["seconds"] if rank["seconds"] > 0 else 0.0
    if not gain >= _FASTER:
        facts = _facts(rank["trace"], rank["names"])
        fill = {"took": 1e3 * rank["seconds"], "whole": 1e3 * needed["seconds"]}
        fill |= {"gain": gain, "least": _FASTER, "bubble": facts["count"] + 1}
        fill |= {"why": _why_slow(**facts), "count": facts["count"]}
        raise _TEXTS.wrong("slow", clue=facts, also={"gain": gain}, **fill)
    word = rank["trace"].source.partition(":")[0]
    return f"{gain:.2f} times as fast as the whole batch at once ({word})"


def _other_gradients(rank, needed, **fill):
    sample, without = rank["sample"].double(), rank["without"]
    each = [block.double() for block in needed["each"]] or [sample]
    right = sum(each) / BLOCKS
    if sample.shape != right.shape:
        sample = right * float("nan")
    clue = {"sample": sample, "apart": sample - right, "without": without}
    if without:
        clue["backward"] = rank["backward"]
        return _TEXTS.wrong("no gradients", clue=clue, without=without)
    times = (sample @ right / (right @ right)).item()
    apart = f"up to {100 * rank['off']:.3g}\N{NO-BREAK SPACE}% off"
    if (sample - times * right).norm() <= _REST * abs(times) * right.norm():
        apart = f"{times:,.4g} times as large"
    if not rank["off"] < float("inf"):
        apart = "no numbers (nan)"
    # gradients of the classes look like samples where a micro-batch is square
    sizes = sorted({count for count in rank["passes"] if count > _CLASSES})
    counts = _counts(sample, torch.stack(each, 1))
    if not sample.isfinite().all():
        why = "no numbers"
    elif counts and rank["off"] >= _NEARLY:
        why = "other weights"
    else:
        why = "other lengths" if len(sizes) > 1 else "other sum"
    fill |= {"apart": apart, "counts": ", ".join(counts), "sizes": listed(sizes or [0])}
    fill |= {"blocks": BLOCKS, "each": 1 / BLOCKS, "samples": _SAMPLES}
    return _TEXTS.wrong("other gradients", why=why, clue=clue, **fill)


def _counts(sample, blocks):
    """How much each eighth of the batch counts in a gradient; [] if none has it."""
    if not sample.isfinite().all():
        return []
    counts = torch.linalg.lstsq(blocks, sample[:, None]).solution.flatten()
    if not (blocks @ counts - sample).norm() < _REST * sample.norm():
        return []
    least = _REST * counts.abs().max()
    return [f"{n:.3g}" if abs(n) > least else "0" for n in counts.tolist()]


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


def _regions(trace, device):
    """The forward and the backward events of a device, in order."""
    events = trace.select(device, "compute")
    return [
        [event for event in events if re.match(rf"{role}( \d+)?$", event.name)]
        for role in ("forward", "backward")
    ]


def _why_slow(count, *, turns, late):
    if count < 2:
        return "whole batch"
    if turns:
        return "turns"
    if late:
        return "late"
    if count >= _MANY:
        return "many"
    return "few" if count < _FEW else "held up"


def draw(case: Case, seen):
    """The timeline of both devices."""
    from course_lib.plots.timeline import plot_timeline

    return plot_timeline(seen[0]["trace"])


EXERCISE = Exercise(
    "1.3",
    observe,
    cases,
    judge,
    proof="gradients of the whole batch, {}",
    draw=draw,
)
