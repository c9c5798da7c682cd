"""Exercise 3.3, decided: the bytes that the busiest device sends in one step."""

import random
from collections.abc import Iterator

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import near
from course_lib.exercises.e3_1.judge import draw_transfers
from course_lib.exercises.e3_3.observe import Scaled, sizes
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_TEXTS = Texts("3.3")
_OFF = 0.001  # of the bytes
# devices, samples, and whether NCCL broadcasts
_STEPS = [(4, 64, False), (4, 64, True), (2, 100, True), (8, 64, False), (8, 64, True)]
_STEPS += [(3, 96, False), (5, 60, True)]


def cases(seed: int) -> Iterator[Case]:
    """Yield steps of networks with and without buffers, of images in 1, 4 and 8 bytes.

    With NCCL and without. Expected are the bytes of what they are about.
    """
    steps, numbers, first = _STEPS, random.Random(seed), 100 * seed
    if seed:
        counts = numbers.sample((3, 4, 5, 6, 7), 5) + numbers.sample((3, 5, 6), 2)
        batches = [count * numbers.randint(9, 24) for count in counts]
        steps = list(zip(counts, batches, [nccl for *_, nccl in _STEPS]))
    for (count, batch, nccl), (name, model, as_given) in zip(steps, _networks(seed)):
        images, labels = (part[first:] for part in baseline.samples(first + batch))
        given = {"name": name, "model": model, "images": as_given(images)}
        given["nccl"] = nccl
        with torch.no_grad():
            outputs = model(given["images"])
        expected = sizes(model, given["images"], outputs, count)
        yield Case(given | {"devices": count, "labels": labels}, expected=expected)


def _networks(seed):
    """What each step is called and trains, and how images come to it."""
    plain, with_norm = baseline.network(seed), baseline.network_with_norm(seed)
    as_floats, double = torch.Tensor.float, baseline.network(seed).double()
    of_bytes = nn.Sequential(Scaled(), *baseline.network(seed))
    return (
        *[("the network", plain, as_floats)] * 3,
        *[("the network with BatchNorm", with_norm, as_floats)] * 2,
        ("the network in float64", double, torch.Tensor.double),
        ("the network with images in bytes", of_bytes, lambda x: (255 * x).byte()),
    )


def judge(case: Case, seen) -> str:
    """Compare both numbers with what DataParallel and a ring send."""
    [rank] = seen
    given, of, pair = case.given, case.expected, _pair(rank["returned"])
    on = f"on {given['devices']} devices with{'' if rank['nccl'] else 'out'} NCCL"
    where = f"{given['name']}, {len(given['images'])} samples {on}"
    if pair is None:
        raise _TEXTS.wrong("no pair", where=where, returned=shown(rank["returned"]))
    times = _right(given["devices"], rank["nccl"])
    for kind, (name, right) in enumerate(times.items()):
        found, expected = pair[kind], sum(right[what] * of[what] for what in right)
        if not near(found, expected, _OFF * expected):
            counts = _counts(rank, kind, found=found)
            told = _told(found, counts, right, of=of)
            fill = {"where": where, "answered": found, "expected": expected}
            raise _TEXTS.wrong(name, told=told, clue={"kind": kind, **counts}, **fill)
    return f"{given['name']} {on}"


def _pair(value):
    """Two numbers as floats, None for anything else."""
    value = value.tolist() if isinstance(value, torch.Tensor) else value
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    pair = [number_of(one) for one in value]
    return None if None in pair else pair


def _right(devices, nccl):
    """How many times a byte of each thing is sent by DataParallel, and by DDP."""
    copies, share = 1 if nccl else devices - 1, (devices - 1) / devices
    parallel = {"parameters": copies, "buffers": copies}
    parallel |= {"images": share, "outputs": share}
    ring = dict.fromkeys(parallel, 0) | {"parameters": 2 * share}
    return {"DataParallel": parallel, "DDP": ring}


def _counts(rank, kind, *, found):
    """How often a number counts a byte of each thing.

    None where the answer gave no numbers for a step with more of that.
    """
    counts = dict.fromkeys(rank["extra"])
    for name, extra in rank["extra"].items():
        if extra and (probe := _pair(rank["probes"][name])):
            counts[name] = round((probe[kind] - found) / extra, 5)
    return counts


def _told(found, counts, right, *, of):
    """What a number counts too often or too rarely, and what else is in it."""
    if None in counts.values():
        return ""
    off = [
        f"each byte of {name} {counts[name]:.4g} times ({times:.4g} are right)"
        for name, times in right.items()
        if abs(counts[name] - times) > 0.01
    ]
    rest = found - sum(counts[name] * of[name] for name in right)
    if abs(rest) > 0.005 * abs(found):
        off.append(f"{rest:,.6g} bytes of something else")
    return f"This number counts {listed(off)}. " if off else ""


def draw(case: Case, seen):
    """Draw what travelled in the step of DataParallel."""
    return draw_transfers(seen[0]["baseline"]["trace"])
