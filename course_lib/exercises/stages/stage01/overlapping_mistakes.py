"""What goes wrong with micro-batches on two devices, and the hint for it."""

import re

import torch

from course_lib.exercises.compare import CLOSE, gap, largest
from course_lib.exercises.device_runs import mixed

_SAMPLES = 2048  # of the batch
_FEW = 3  # micro-batches: with less the bubble alone makes a step too long
_MANY = 12  # from here on what each one repeats costs more than the bubble it saves
_CUT_OFF = (
    "backward runs, but the loss is not part of the graph any more: .item(),"
    " torch.tensor(), .detach() and no_grad cut it. Keep the losses as they are, or the"
    " outputs."
)


def why_failed(error):
    """The hint for tensors that lie apart, do not match or have no graph, else None."""
    if "to match target batch_size" in str(error):
        return "Cut the labels like x: labels.chunk(4) goes with x.chunk(4)."
    if "does not require grad" in str(error):
        return _CUT_OFF
    found = mixed(error)
    if not found:
        return None
    return (
        f"A tensor on {found[0]} meets one on {found[-1]}: move what part_1 returns to"
        " devices[1], micro-batch by micro-batch."
    )


def why_apart(found, expected, *, seen, parts):
    """The hint for gradients that are not those of the mean over the batch."""
    lacking = [one is None for one in found]
    if all(lacking) and seen["backward"]:
        return _CUT_OFF
    if all(lacking):
        return "Nothing calls backward: the function ends with gradients in .grad."
    if any(lacking):
        return (
            "The gradients stop between the parts. Moving by .to() keeps the graph;"
            " a detached activation needs its gradient handed on by you."
        )
    if seen["gap"] == float("inf"):
        return (
            "nan comes of 0 / 0 or of infinite losses: divide by no number that is 0."
        )
    count = len(_regions(seen["run"].trace, seen["names"][0], "forward")) or 1
    if seen["scale"] is not None:
        return _why_scaled(seen["scale"], count)
    gradient, naive, gradients = parts
    samples = torch.arange(_SAMPLES).chunk(count)
    for hint, pick, factor in _losses(samples):
        gradient(_each, naive, pick, factor)
        if relative_gap(gradients(), found) <= CLOSE:
            return hint
    return "Every sample counts once, with weight 1 / 2,048 in the loss."


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


def _why_scaled(scale, count):
    """The hint for gradients that are `scale` times too large, of `count` forwards."""
    if abs(scale / count - 1) < CLOSE:
        return (
            "They are too large: each micro-batch adds the mean of its own loss. Weight"
            " it by its share of the samples."
        )
    if abs(scale / _SAMPLES - 1) < CLOSE:
        return f"This looks like a sum over all {_SAMPLES:,} samples, not a mean."
    if scale > 1:
        return (
            "They are too large: this looks like a sum, not a mean. Every sample counts"
            f" once, with weight 1 / {_SAMPLES:,}."
        )
    return (
        "They are too small: the loss is divided more often than once by the number of"
        " micro-batches."
    )


def scale_of(found, expected):
    """The factor by which all gradients are too large; None if there is none."""
    if any(one is None for one in found):
        return None
    one, other = (torch.cat([g.flatten() for g in gs]) for gs in (found, expected))
    factor = (one @ other / (other @ other)).item()
    scaled = factor > 0 and relative_gap([one / factor], [other]) <= CLOSE
    return factor if scaled else None


def relative_gap(found, expected):
    """The largest difference, relative to the largest gradient.

    Infinite if a gradient lacks or is no number.
    """
    if any(one is None for one in found):
        return float("inf")
    found, expected = dict(enumerate(found)), dict(enumerate(expected))
    return gap(found, expected) / largest(expected)


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
            f"{len(forward)} micro-batches are too many: each one reads all weights and"
            " adds a whole gradient again, and pays for its copies and launches. Take"
            " fewer."
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
