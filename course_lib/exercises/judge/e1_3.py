"""Exercise 1.3, decided: micro-batches that keep two devices busy."""

import random
import re
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e1_3 import BLOCKS, observe
from course_lib.text import listed, size

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
    needed = rank["baseline"]
    _judge_gradients(rank, needed)
    _judge_work(rank, needed)
    crossed = sum(rank["crossings"])
    if not _LEAST <= crossed / needed["crossed"] <= _MOST:
        raise Wrong(
            f"the gradients are right, but {size(crossed)} cross between the devices,"
            f" expected {size(needed['crossed'])}",
            "Only the activation between the parts crosses, as it is, and its gradient"
            " comes back. x stays on devices[0], labels on devices[1].",
            clue={"crossed": crossed / needed["crossed"]},
        )
    gain = needed["seconds"] / rank["seconds"] if rank["seconds"] > 0 else 0.0
    if not gain >= _FASTER:
        facts = _facts(rank["trace"], rank["names"])
        raise Wrong(
            f"the gradients are right, but it takes {1e3 * rank['seconds']:.2f} ms, the"
            f" whole batch {1e3 * needed['seconds']:.2f} ms: {gain:.2f} times as fast,"
            f" expected at least {_FASTER}",
            _why_slow(**facts),
            clue=facts,
            also={"gain": gain},
        )
    word = rank["trace"].source.partition(":")[0]
    return f"{gain:.2f} times as fast as the whole batch at once ({word})"


def _judge_gradients(rank, needed):
    if rank["moved"]:
        raise Wrong(
            "the weights have changed",
            "Only gradients are asked for: no optimizer step, and nothing is set.",
        )
    if rank["off"] <= CLOSE:
        return
    right = sum(needed["each"]).double() / BLOCKS
    sample, without = rank["sample"].double(), rank["without"]
    if sample.shape != right.shape:
        sample = right * float("nan")
    clue = {"sample": sample, "apart": sample - right, "without": without}
    if without:
        raise Wrong(
            f"{without} parameters have no gradient in `.grad`",
            "Gradients go back from the loss through both parts: the loss needs its"
            " graph, and so does what moves between the parts (.to() keeps it).",
            clue=clue | {"backward": rank["backward"]},
        )
    times = (sample @ right / (right @ right)).item()
    found = f"up to {100 * rank['off']:.3g}\N{NO-BREAK SPACE}% off"
    if (sample - times * right).norm() <= _REST * abs(times) * right.norm():
        found = f"{times:,.4g} times as large"
    raise Wrong(
        "the gradients are not those of the mean over all samples: they are"
        f" {found if rank['off'] < float('inf') else 'no numbers (nan)'}",
        _why_apart(sample, rank, needed),
        clue=clue,
    )


def _why_apart(vector, rank, needed):
    """How much each eighth of the batch counts in the gradient."""
    if not vector.isfinite().all():
        return "nan comes of 0 / 0 or infinite losses: divide by no number that is 0."
    blocks = torch.stack(needed["each"], 1).double()
    counts = torch.linalg.lstsq(blocks, vector[:, None]).solution.flatten()
    rest, least = (blocks @ counts - vector).norm(), _REST * counts.abs().max()
    if rank["off"] >= _NEARLY and rest < _REST * vector.norm():
        told = (f"{n:.3g}" if abs(n) > least else "0" for n in counts.tolist())
        return (
            f"Of the {BLOCKS} eighths of the batch the mean losses count"
            f" {', '.join(told)}, expected {1 / BLOCKS:g} each: every sample counts"
            f" once, with weight 1 / {_SAMPLES:,}."
        )
    # gradients of the classes look like samples where a micro-batch is square
    sizes = sorted({count for count in rank["passes"] if count > _CLASSES})
    if len(sizes) > 1:
        return (
            f"Micro-batches of {listed(sizes)} samples: the mean of their means is the"
            " mean of all only if the micro-batches are equally long. Choose a number"
            f" that divides {_SAMPLES}, or weight each loss by its share of samples."
        )
    return (
        "No sum over the eighths of the batch has this gradient. Is the loss another"
        " one, is something rounded, or does a sample meet the label of another? Does"
        " it go through the given part_1 and part_2 alone? Of"
        f" {size(needed['crossed'])} between the devices {size(sum(rank['crossings']))}"
        " crossed."
    )


def _judge_work(rank, needed):
    """Refuse work on the CPU, on the other device, left out or done twice."""
    shares = {n: rank["flops"].get(n, 0) / needed["flops"][n] for n in rank["names"]}
    others = set(rank["flops"]) - set(rank["names"])
    if not others and all(_LEAST <= share <= _MOST for share in shares.values()):
        return
    told = [f"{name} computes {100 * share:.0f} %" for name, share in shares.items()]
    told += [f"{name} computes, too" for name in sorted(others)]
    raise Wrong(
        f"the gradients are right, but {listed(told)}, expected 100 % of its part on"
        " each device and nothing elsewhere",
        "part_1 runs on devices[0], part_2 on devices[1], forward and backward, each"
        " sample once: leave both where they are and put the micro-batches through.",
        clue={"shares": list(shares.values()), "others": sorted(others)},
    )


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
        return (
            "The whole batch goes through at once, so one device waits for the other."
            " Cut it: x.chunk(4)."
        )
    if turns:
        return (
            "Each micro-batch goes back before the next one goes forward, so the"
            " devices take turns. First all forward, then backward."
        )
    if late:
        return (
            "The second device starts when all activations have come: the copies stand"
            " in its queue before its work. Launch its part right after each copy."
        )
    if count >= _MANY:
        return (
            f"{count} micro-batches are too many: each one reads all weights and adds a"
            " whole gradient again, and pays for its copies and launches. Take fewer."
        )
    if count < _FEW:
        return (
            f"{count} micro-batches leave a bubble of 1 / {count + 1} of the step. Take"
            " a few more."
        )
    return (
        "Something holds the devices up between the micro-batches: a line that waits"
        " for a number (.item(), .cpu(), print, synchronize), or work done twice. The"
        " host must run ahead, so ask for numbers at the end."
    )


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
