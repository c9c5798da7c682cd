"""What goes wrong in a data-parallel step by hand, and the hint for it."""

from typing import NamedTuple

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import gap, grads_of
from course_lib.exercises.stages.stage03.watching import through_cpu


class Full(NamedTuple):
    """The weights before a step and its whole batch, on the CPU."""

    weights: dict
    images: torch.Tensor
    labels: torch.Tensor

    def gradients(self, pick=slice(None), *, weights=None) -> tuple[dict, float]:
        """Gradients and value of the mean loss over some samples of the batch."""
        model = baseline.network()
        model.load_state_dict(weights or self.weights)
        predicted = model(self.images[pick])
        loss = nn.functional.cross_entropy(predicted, self.labels[pick])
        loss.backward()
        return grads_of(model), loss.item()

    def chunks(self, count: int, cut=torch.chunk) -> list[torch.Tensor]:
        """The numbers of the samples in each chunk that is not empty."""
        parts = cut(torch.arange(len(self.images)), count)
        return [part for part in parts if len(part)]


def combine(full: Full, parts: list, factors: list) -> dict:
    """The sum of the chunks' mean gradients, each times its factor."""
    found = [full.gradients(part)[0] for part in parts]
    return {
        name: sum(f * one[name] for f, one in zip(factors, found)) for name in found[0]
    }


_SUM = (
    "These are the means of the chunks, added up: the gradient is as many times too"
    " large as there are devices. The mean over all samples is wanted."
)
_EQUAL = (
    "Every chunk counts the same here, but the last one is smaller. The mean over all"
    " samples weighs a chunk by its samples: len(chunk) / len(images)."
)
_OLD = (
    "The first step was right, so these replicas are old: the weights have changed"
    " since. Make new replicas in every step."
)
_ONE = (
    "Only the gradient of the first chunk is there. Those of the other replicas must be"
    " added to it."
)
_LAST = (
    "Only the last replica's gradient is there: each one overwrites what was before."
    " Add them up."
)
_OTHERS = (
    "The chunk of device 0 is missing in the sum: its replica's gradient belongs to it,"
    " too."
)
_SHRUNK = (
    "The gradient is divided once too often. If each loss is weighted by its share of"
    " the batch, the gradients are only added up."
)
_TOTAL = (
    "This is the gradient of a sum over samples. Divide by the number of samples in the"
    " whole batch."
)
_TWICE = (
    "Every gradient is counted twice. Copies that are made with .to inside of the graph"
    " bring their gradients home in backward by themselves."
)
_LEFT = (
    "Samples are missing: len(images) // len(devices) rows for each leave the rest"
    " out. chunk leaves out none."
)
_SPLIT = (
    "Only the first samples are used: split(n) makes chunks of n samples, chunk(n)"
    " makes n chunks."
)
_FIXED = "Is a 4 written somewhere? The number of devices is len(devices)."
_PAIRS = (
    "Images meet the labels of other images. Cut both in the same way:"
    " images.chunk(n) and labels.chunk(n)."
)


def why_gradients(found: dict, full: Full, *, count: int, again: int) -> str:
    """The hint for gradients that are not those of the full batch."""
    if again:
        return _OLD
    whole = full.gradients()[0]
    for cut in (torch.chunk, torch.tensor_split):
        for hint, wrong in _mistakes(full, full.chunks(count, cut), count=count):
            if gap(found, wrong) < 2e-6:
                return hint
    for hint, factor in ((_TWICE, 2), (_TOTAL, len(full.images)), (_SHRUNK, 1 / count)):
        if gap(found, {n: factor * g for n, g in whole.items()}) < 2e-6 * max(
            1, factor
        ):
            return hint
    return (
        "Each replica needs the weights of model as they are now, and the gradient of"
        " its own chunk, weighted by its share of the samples. Then all are added up."
    )


def _mistakes(full, parts, *, count):
    """Hints with the gradients that their mistakes give."""
    batch = len(full.images)
    ones, shares = [1.0] * len(parts), [len(part) / batch for part in parts]
    yield _SUM, combine(full, parts, ones)
    yield _EQUAL, combine(full, parts, [1 / len(parts)] * len(parts))
    yield _EQUAL, combine(full, parts, [1 / count] * len(parts))
    yield _SHRUNK, combine(full, parts, [s / count for s in shares])
    yield _SHRUNK, combine(full, parts, [1 / count**2] * len(parts))
    for scale in ([1.0] * len(parts), shares, [1 / count] * len(parts)):
        yield _ONE, combine(full, parts[:1], scale[:1])
        yield _LAST, combine(full, parts[-1:], scale[-1:])
        yield _OTHERS, combine(full, parts[1:], scale[1:])
    for rows, hint in ((count * count, _SPLIT), (count * -(-batch // 4), _FIXED)):
        if rows < batch:
            part = full.gradients(slice(0, rows))[0]
            for factor in (1, rows / batch, count):
                yield hint, {name: factor * g for name, g in part.items()}
    dealt = torch.cat([torch.arange(batch)[i::count] for i in range(count)])
    for order in (dealt, dealt.argsort(), torch.arange(batch) % len(parts[0])):
        yield _PAIRS, full._replace(labels=full.labels[order]).gradients()[0]
    even = batch // count * count
    if even and even < batch:
        yield _LEFT, full.gradients(slice(0, even))[0]


def why_loss(found: float | None, full: Full, *, count: int) -> str:
    """The hint for a loss that is not the mean over the batch."""
    if found is None:
        return "Return the mean loss over all samples, as a number or a tensor of one."
    losses = [full.gradients(part)[1] for part in full.chunks(count)]
    if abs(found - sum(losses)) < 1e-4:
        return "The gradients are right; this loss is the sum of the chunks' means."
    if abs(found - losses[0]) < 1e-4 or abs(found - losses[-1]) < 1e-4:
        return "The gradients are right; this is the loss of one chunk alone."
    if abs(found - sum(losses) / len(losses)) < 1e-4:
        return (
            "The gradients are right; this loss counts every chunk the same, though the"
            " last one is smaller."
        )
    return "The gradients are right; return the mean loss over all samples, too."


class Part(NamedTuple):
    """What one device needs: bytes of the weights, samples of batch and share."""

    size: int
    batch: int
    share: int
    sample: int

    @property
    def given(self) -> int:
        """The bytes that a device must get: weights and its share of the batch."""
        return self.size + self.share * self.sample


def why_bytes(part: Part, *, sent: dict, back: dict, transfers) -> str:
    """The hint for too many bytes, by what goes to and comes from other devices."""
    if through_cpu(transfers):
        return (
            "Something goes through the CPU: .cpu(), or a copy without a device."
            " Straight to the device it travels once."
        )
    names = [*sent, *back]
    between = [one for one in transfers if one.source in names and one.target in names]
    if between:
        return (
            f"{between[0].source} sends to {between[0].target}. A model that travels on"
            " lets the devices work one after the other: give each its own copy."
        )
    most, home = max(sent.values()), max(back.values())
    if most >= part.size + part.batch * 4 * 64:
        return (
            "Every device gets the whole batch and then cuts it. Cut first, on device"
            " 0, and send each device its own chunk."
        )
    if home > 1.9 * part.size:
        return (
            "The gradients come home twice, or come with the weights. Only .grad of"
            " each parameter has to travel, once."
        )
    if home >= part.size + 0.9 * part.share * 40:
        return (
            "The outputs travel to device 0, and their gradients back. Let each device"
            " compute the losses of its own samples: 4 bytes each instead of 40."
        )
    if most > part.given + 0.9 * part.size:
        return (
            "Twice as much as the weights goes out. One copy per device is enough; and"
            " deepcopy takes .grad along, so make all replicas before any gradient."
        )
    return "Weights and chunks go out once, gradients come home once. What else moves?"
