"""What goes wrong with micro-batches on two devices, and the hint for it."""

import re

import torch

from course_lib.device_evidence import mixed
from course_lib.evidence import CLOSE

_FEW = 3  # micro-batches: with less the bubble alone makes a step too long
_MANY = 12  # from here on launches cost more than the bubble


def why_failed(error):
    """The hint for tensors that lie apart, else None."""
    found = mixed(error)
    if not found:
        return None
    return (
        f"A tensor on {found[0]} meets one on {found[-1]}: move what part_1 returns to"
        " devices[1], micro-batch by micro-batch."
    )


def why_apart(found, expected, *, run, parts):
    """The hint for gradients that are not those of the mean over the batch."""
    lacking = [one is None for one in found]
    if all(lacking):
        return "Nothing calls backward: the function ends with gradients in .grad."
    if any(lacking):
        return (
            "The gradients stop between the parts. Moving by .to() keeps the graph;"
            " a detached activation needs its gradient handed on by you."
        )
    count = len(_regions(run.trace, run.trace.ranks[0], "forward")) or 1
    scale = _scale(found, expected)
    if scale is not None:
        return _why_scaled(scale)
    gradient, naive, gradients = parts
    samples = torch.arange(2048).chunk(count)
    for hint, pick, factor in _losses(samples):
        gradient(_each, naive, pick, factor)
        if _close(gradients(), found):
            return hint
    return "Every sample counts once, with weight 1 / 2048 in the loss."


def _each(naive, pick, factor):
    for one in pick:
        naive(one, factor)


def _losses(samples):
    """Hints, with the chunks that count and the factor of their mean losses."""
    count = len(samples)
    last = (
        "Only the last micro-batch counts: gradients of the others were wiped out or"
        " never computed."
    )
    yield last, samples[-1:], 1.0
    yield last, samples[-1:], 1 / count
    yield (
        "The micro-batches are not equally long, so the mean of their means is not the"
        " mean of all. Choose a number that divides 2048, or weight each loss by its"
        " share of samples.",
        samples,
        1 / count,
    )


def _why_scaled(scale):
    if scale > 1:
        return (
            f"They are {scale:,.4g} times too large: each micro-batch adds the mean of"
            " its own loss. Weight it by its share of the samples."
        )
    return (
        f"They are {1 / scale:.3g} times too small: the loss is divided more often than"
        " once by the number of micro-batches."
    )


def _scale(found, expected):
    """The factor by which all gradients are too large; None if there is none."""
    one, other = (torch.cat([g.flatten() for g in gs]) for gs in (found, expected))
    factor = (one @ other / (other @ other)).item()
    return factor if factor > 0 and _close([one / factor], [other]) else None


def _close(found, expected):
    most = max(one.abs().max() for one in expected)
    gaps = [(one - other).abs().max() for one, other in zip(found, expected)]
    return bool(max(gaps) <= CLOSE * most)


def why_slow(run, names):
    """The hint for micro-batches that gain too little."""
    trace, (zero, one) = run.trace, names
    forward = _regions(trace, zero, "forward")
    if len(forward) < 2:
        return (
            "The whole batch goes through at once, so one device waits for the other."
            " Cut it: x.chunk(4)."
        )
    backward = _regions(trace, zero, "backward")
    if backward and backward[0].start < forward[-1].start:
        return (
            "Each micro-batch goes back before the next one goes forward, so the"
            " devices take turns. First all forward, then backward."
        )
    second = _regions(trace, one, "forward")
    if second and second[0].start >= forward[-1].stop:
        return (
            "The second device starts when all activations have come: the copies stand"
            " in its queue before its work. Launch its part right after each copy."
        )
    if len(forward) >= _MANY:
        return (
            f"{len(forward)} micro-batches are too many: the host pays for every"
            " launch, and the devices wait for it. Take fewer."
        )
    if len(forward) < _FEW:
        return (
            f"{len(forward)} micro-batches leave a bubble of 1 / {len(forward) + 1} of"
            " the step. Take a few more."
        )
    return (
        "Something holds the devices up between the micro-batches: a line that waits"
        " for a number (.item(), .cpu(), print, synchronize), or work done twice. The"
        " host must run ahead, so ask for numbers at the end."
    )


def _regions(trace, device, role):
    """The forward or backward events of a device, in order."""
    pattern = re.compile(rf"{role}( \d+)?$")
    return [e for e in trace.select(device, "compute") if pattern.match(e.name)]
