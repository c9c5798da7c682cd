"""Exercise 3.3, decided: the bytes that the busiest device sends in one step."""

import random
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import near
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e3_1 import draw_transfers
from course_lib.exercises.observe.e3_3 import Scaled, observe, sizes
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_OFF = 0.001  # of the bytes
_KINDS = ("DataParallel", "DDP")
_LOOK = (
    "Look at the row of device 0 in the lesson's matrix: weights and buffers to each"
    " other device, shares of the batch, gradients of outputs.",
    "A rank sends (n − 1)/n of the bytes of all gradients, twice.",
)


def cases(seed: int) -> Iterator[Case]:
    """Steps of networks with and without buffers, in 4 and 8 bytes, of images in 1.

    Expected are the bytes of what they are about.
    """
    steps = ((4, 64), (2, 100), (8, 64), (3, 96), (5, 60))  # devices, samples
    if seed:
        numbers = random.Random(seed)
        counts = numbers.sample((3, 4, 5, 6, 7), 3) + numbers.sample((3, 5, 6), 2)
        steps = [(count, count * numbers.randint(9, 24)) for count in counts]
    makers = (_plain, _plain, _with_norm, _in_float64, _of_bytes)
    for make, (count, batch) in zip(makers, steps):
        images, labels = baseline.samples(100 * seed + batch)
        name, model, images = make(seed, images[100 * seed :])
        given = {"name": name, "model": model, "images": images, "devices": count}
        with torch.no_grad():
            expected = sizes(model, images, model(images), count)
        yield Case(given | {"labels": labels[100 * seed :]}, expected=expected)


def _plain(seed, images):
    return "the network", baseline.network(seed), images


def _with_norm(seed, images):
    return "the network with BatchNorm", baseline.network_with_norm(seed), images


def _in_float64(seed, images):
    model = baseline.network(seed).double()
    return "the network in float64", model, images.double()


def _of_bytes(seed, images):
    model = nn.Sequential(Scaled(), *baseline.network(seed))
    return "the network with images in bytes", model, (255 * images).byte()


def judge(case: Case, seen) -> str:
    """Compare both numbers with what DataParallel sent, and with a ring."""
    [rank] = seen
    pair = _pair(rank["returned"])
    given, count = case.given, case.expected["devices"]
    where = f"{given['name']}, {len(given['images'])} samples on {count} devices"
    if pair is None:
        raise Wrong(
            f"{where}: returned {shown(rank['returned'])}, expected two numbers",
            "Return a pair: bytes for DataParallel first, for DDP second.",
        )
    for kind, right in enumerate(_right(case.expected)):
        expected = sum(right[name] * case.expected[name] for name in right)
        trace = rank["baseline"]["trace"]
        # on real GPUs NCCL's kernels move weights and gradients: no copies to count
        if not kind and trace.source.startswith("modelled"):
            expected = sum(trace.copied(source=trace.ranks[0]))
        if not near(pair[kind], expected, _OFF * expected):
            raise _miscounted(rank, case, where, kind=kind, numbers=(pair, expected))
    return f"{given['name']} on {count} devices"


def _pair(value):
    """Two numbers as floats, None for anything else."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    pair = [number_of(one) for one in value]
    return None if None in pair else pair


def _right(of):
    """How many times a byte of each thing is sent by DataParallel, and by DDP."""
    others, share = of["devices"] - 1, (of["devices"] - 1) / of["devices"]
    parallel = {"parameters": others, "buffers": others}
    parallel |= {"images": share, "outputs": share}
    return parallel, {"parameters": 2 * share, "buffers": 0, "images": 0, "outputs": 0}


def _miscounted(rank, case, where, *, kind, numbers):
    """What differs in the number of a kind: how often a byte of each thing counts."""
    pair, expected = numbers
    right, found = _right(case.expected)[kind], pair[kind]
    probes = {name: _pair(value) for name, value in rank["probes"].items()}
    counts = dict.fromkeys(right)
    for name, probe in probes.items():
        if name in counts and probe and rank["extra"][name]:
            count = (probe[kind] - found) / rank["extra"][name]
            counts[name] = round(count, 5)
    more = probes["devices"]
    doubled = more and more[kind] / max(1e-9, abs(found))
    hint = _LOOK[kind]
    if None not in counts.values():
        hint = _counted(found, counts, right, of=case.expected) + hint
    if not found:
        hint = f"Nothing is counted: before a step there is no `.grad` yet. {hint}"
    elif doubled == 1:
        hint = f"This number is the same for more devices: use `n`. {hint}"
    return Wrong(
        f"{_KINDS[kind]}, {where}: {_said(found)} bytes, expected {_said(expected)}",
        hint,
        clue={"kind": kind, **counts, "doubled": doubled},
    )


def _counted(found, counts, right, *, of):
    """Which bytes count too often or too rarely in a number, and what else is in it."""
    off = [
        f"each byte of {name} {counts[name]:.4g} times ({right[name]:.4g} are right)"
        for name in right
        if abs(counts[name] - right[name]) > 0.01
    ]
    rest = found - sum(counts[name] * of[name] for name in counts)
    told = f"This number counts {listed(off)}. " if off else ""
    if abs(rest) > 0.005 * abs(found):
        told += (
            f"Beside parameters, buffers, images and outputs it counts {_said(rest)}"
            " bytes of something else. "
        )
    return told


def _said(count):
    exact = abs(count) < 1e15 and count == round(count)
    return f"{count:,.0f}" if exact else f"{count:,.6g}"


def draw(case: Case, seen):
    """What travelled in the step of DataParallel."""
    return draw_transfers(seen[0]["baseline"]["trace"])


EXERCISE = Exercise(
    "3.3",
    observe,
    cases,
    judge,
    proof=f"both within {100 * _OFF:g} % for {{}}",
    draw=draw,
)
