"""Exercise 3.3: the bytes that the busiest device sends in one step."""

import copy
from typing import NamedTuple

from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import near, number_of
from course_lib.exercises.device_runs import on_devices
from course_lib.exercises.stages.stage03.bytes_mistakes import sent_by_device_0, why
from course_lib.exercises.stages.stage03.watching import draw
from course_lib.text import short


class Case(NamedTuple):
    """A training step: which model, how wide its numbers, how many devices, samples."""

    name: str
    make: object
    double: bool
    devices: int
    batch: int


_CASES = (
    Case("the network", baseline.network, False, 4, 64),
    Case("the network", baseline.network, False, 2, 100),
    Case("the network with BatchNorm", baseline.network_with_norm, False, 8, 64),
    Case("the network in float64", baseline.network, True, 3, 96),
)
_KINDS = ("DataParallel", "DDP")


@baseline.settled()
def check_bytes(attempt: Attempt) -> str:
    """Compare what is predicted with what DataParallel's trace counts.

    For DDP the gradients of that step are taken, and a ring's 2(n − 1)/n of them.
    """
    found = [attempt(_step, case, world_size=1)[0] for case in _CASES]
    draw(attempt, found[0]["trace"])
    pairs = [_pair(case, one) for case, one in zip(_CASES, found)]
    for number, kind in enumerate(_KINDS):
        for case, one, pair in zip(_CASES, found, pairs):
            if not near(pair[number], one[kind], 0.001 * one[kind]):
                raise Wrong(
                    f"{kind}, {case.name}, {case.batch} samples on {case.devices}"
                    f" devices: {_said(pair[number])} bytes, expected"
                    f" {_said(one[kind])}",
                    why(
                        number, [p[number] for p in pairs], [o["sizes"] for o in found]
                    ),
                )
    return f"{len(_CASES)} steps on 2 to 8 devices, float32 and float64, with buffers"


def _said(count):
    return f"{count:,.6g}" if count != round(count) else f"{count:,.0f}"


def _pair(case, one):
    pair = one["answer"]
    if pair is None:
        raise Wrong(
            f"returned {one['said']}, expected two numbers",
            "Return a pair: bytes for DataParallel first, for DDP second.",
        )
    return pair


def _step(rank, world_size, answer, /, *given):
    """One step of DataParallel, counted, and what the answer says about it."""
    (case,) = given
    model = case.make()
    images, labels = baseline.samples(case.batch)
    if case.double:
        model, images = model.double(), images.double()
    outputs = model(images).detach()
    said = answer(copy.deepcopy(model), images.clone(), outputs.clone(), case.devices)
    trace = _count(model, (images, labels), count=case.devices)
    sizes = {
        "n": case.devices,
        "weights": _size(model.parameters()),
        "buffers": _size(model.buffers()),
        "images": images.nbytes,
        "outputs": outputs.nbytes,
        "width": images.element_size(),
    }
    share = (case.devices - 1) / case.devices
    sent = sum(trace.copied(source=trace.ranks[0]))
    # on real GPUs NCCL's kernels move weights and gradients: no copies to count
    virtual = trace.source.startswith("modelled")
    return {
        "answer": _numbers(said),
        "said": short(said),
        "trace": trace,
        "DataParallel": sent if virtual else sent_by_device_0(sizes),
        "DDP": 2 * share * sizes["weights"],
        "sizes": sizes,
    }


def _size(tensors):
    return sum(tensor.nbytes for tensor in tensors)


def _numbers(value):
    """Two numbers as floats, None for anything else."""
    try:
        pair = [number_of(one) for one in value]
    except TypeError:
        return None
    return pair if len(pair) == 2 and None not in pair else None


def _count(model, data, *, count):
    """The trace of one step of DataParallel."""
    from course_lib.tracing import record

    devs = on_devices(count)
    parallel = nn.DataParallel(model.to(devs[0]), device_ids=devs)
    images, labels = (part.to(devs[0]) for part in data)
    with record.trace() as recorded:
        nn.functional.cross_entropy(parallel(images), labels).backward()
    return recorded
