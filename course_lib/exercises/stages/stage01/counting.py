"""Exercise 1.4: the bytes of a training, by kind."""

import torch

from course_lib.accelerators.memory import KINDS
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import number_of
from course_lib.exercises.device_runs import held, on_devices
from course_lib.exercises.stages.stage01.cutting import network
from course_lib.text import short

_CASES = (((64, 32, 10), 50), ((64, 256, 128, 10), 32), ((20, 300, 300, 300, 5), 7))
_BLOCK = 512  # bytes to which a real GPU rounds each tensor


def check_bytes(attempt: Attempt) -> str:
    """Compare each number with what a device counts."""
    for widths, samples in _CASES:
        (seen,) = attempt(_count, list(widths), samples, world_size=1)
        found = _numbers(seen)
        for kind in KINDS:
            expected, slack = seen["counted"][kind], seen["slack"][kind]
            if found[kind] is None or abs(found[kind] - expected) > slack:
                raise Wrong(
                    f"widths {list(widths)}, {samples} samples: {kind}"
                    f" {seen['said'][kind]}, {seen['source']} {expected:,} bytes",
                    _unit(found[kind], expected)
                    or _why(kind, found[kind], (widths, samples)),
                )
    return f"all four kinds of {len(_CASES)} networks, to the byte"


def _count(_rank, _world_size, answer, /, *given):
    widths, samples = given
    answered = answer(list(widths), samples)
    said = {kind: answered.get(kind) for kind in KINDS} if _is_dict(answered) else {}
    (device,) = on_devices(1)
    counted, slack = _counted(widths, samples, device)
    real = device.type == "cuda"
    return {
        "returned": short(answered),
        "said": {kind: _said(value) for kind, value in said.items()},
        "numbers": {kind: number_of(value) for kind, value in said.items()},
        "keys": [str(key) for key in answered] if _is_dict(answered) else None,
        "counted": counted,
        "slack": slack if real else dict.fromkeys(KINDS, 0),
        "source": "the GPU holds" if real else "the virtual GPU counts",
    }


def _said(value):
    """A number with the commas of the expected one, all else in short."""
    number = number_of(value)
    whole = number is not None and number.is_integer()
    return f"{number:,.0f}" if whole else short(value)


def _is_dict(value):
    return isinstance(value, dict)


def _counted(widths, samples, device):
    """Bytes by kind as the device counts them, and how far a real one may be off."""
    levels = [held([device])[str(device)]]

    def level():
        levels.append(held([device])[str(device)])
        return levels[-1] - levels[-2]

    counted = {}
    model = network(widths).to(device)
    counted["parameters"] = level()
    model(torch.ones(1, widths[0], device=device)).sum().backward()
    counted["gradients"] = level()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    counted["optimizer state"] = level()
    batch = torch.ones(samples, widths[0], device=device)
    output = model(batch)
    counted["activations"] = level()
    del output, batch
    number = 2 * (len(widths) - 1)
    slack = dict.fromkeys(KINDS, _BLOCK * number)
    return counted, slack | {"optimizer state": 2 * _BLOCK * number}


def _numbers(seen):
    if seen["keys"] is None:
        raise Wrong(
            f"training_bytes returned {seen['returned']}, expected a dict",
            f"Its keys are the four kinds: {', '.join(map(repr, KINDS))}.",
        )
    missing = [kind for kind in KINDS if kind not in seen["keys"]]
    if missing:
        raise Wrong(
            f"the dict has no key {missing[0]!r}, it has {', '.join(seen['keys'])}",
            f"Four keys, written so: {', '.join(map(repr, KINDS))}.",
        )
    return seen["numbers"]


def _unit(found, expected):
    """The hint for a right number in another unit, else None."""
    units = (("kB", 1e3), ("KiB", 2**10), ("MB", 1e6), ("MiB", 2**20))
    for unit, scale in units:
        if found is not None and abs(found * scale / expected - 1) < 1e-3:
            return f"The number is right in {unit}. Give bytes, without rounding."
    return None


def _why(kind, found, case):
    """The hint for a wrong number."""
    if found is None:
        return "A number of bytes is expected here."
    widths, samples = case
    for hint, wrong in _mistakes(kind, widths, samples):
        if found == wrong:
            return hint
    return {
        "parameters": "Each Linear has in × out weights and out biases.",
        "gradients": "Each parameter has one gradient of its own size.",
        "optimizer state": "Adam keeps two numbers per parameter.",
        "activations": "What stays for backward: the batch, and what each layer puts"
        " out, once.",
    }[kind]


def _mistakes(kind, widths, samples):
    pairs = list(zip(widths, widths[1:]))
    count = sum(one * other + other for one, other in pairs)
    bare = count - sum(widths[1:])
    elements = "These are numbers, not bytes: float32 has 4 bytes."
    if kind == "activations":
        yield elements, samples * sum(widths)
        yield "These are the bytes of one sample, the batch has more.", 4 * sum(widths)
        yield (
            "The batch itself is kept, too: the first layer needs it in backward.",
            4 * samples * sum(widths[1:]),
        )
        yield (
            "The output of the last layer is kept, too: the loss needs it.",
            4 * samples * sum(widths[:-1]),
        )
        yield "Batch and output belong to it, too.", 4 * samples * sum(widths[1:-1])
        yield (
            "ReLU keeps its result, and the number that went in is freed: count each"
            " hidden layer once.",
            4 * samples * (sum(widths) + sum(widths[1:-1])),
        )
        yield (
            "These are the parameters' bytes times the batch: a parameter is there"
            " once, however many samples come.",
            4 * samples * count,
        )
        return
    factor = 8 if kind == "optimizer state" else 4
    yield elements, count * factor // 4
    yield "The biases are missing: each Linear has `out` of them.", bare * factor
    yield "There are biases, too, and these are numbers, not bytes.", bare * factor // 4
    yield (
        f"{kind.capitalize()} do not depend on the batch: a sum over samples is one"
        " number.",
        samples * count * factor,
    )
    if kind == "optimizer state":
        yield (
            "Adam keeps two numbers per parameter: the mean of the gradient and of its"
            " square.",
            4 * count,
        )
        yield (
            "Parameter and gradient are counted already: Adam adds two numbers.",
            16 * count,
        )
        yield "Adam adds two numbers of 4 bytes, not three.", 12 * count
        yield (
            "Adam also counts its steps, one number for each weight and each bias:"
            " its step counters stay on the CPU.",
            8 * count + 4 * 2 * len(pairs),
        )
