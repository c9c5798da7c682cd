"""Exercise 6.3, decided: the gradient noise scale, measured in launches with DDP."""

import math
import random
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_TEXTS = Texts("6.3")
CLOSE = 1e-3  # relative: what is right
_ROUNDED = 1e-6  # relative: what sums in float32 may be off
_LEAST, _MOST = 0.6, 1.4  # of the work and the traffic that are needed
_SIGNAL = 0.3  # share of |G|² in |g|² of the average, so that rounding does not count
_FAR = 50  # times: more than by a bucket, a batch or the ranks that are left out
# ranks, and for each measurement the images of a rank's batch and the batches
_LAUNCHES = ((3, [(10, 4), (7, 3), (16, 2)]), (2, [(16, 5), (5, 6)]))


class Norms:
    """Mean squared norms of gradients f64[batches, ranks, parameters] of b images."""

    def __init__(self, gradients: torch.Tensor, b: int):
        self.count, self.ranks, _ = gradients.shape
        self.b, self.B = b, b * self.ranks
        self.small = gradients.square().sum(2).mean().item()
        self.big = gradients.mean(1).square().sum(1).mean().item()

    @property
    def signal(self) -> float:
        """|G|², the squared norm of the gradient without noise.

        McCandlish et al. 2018, appendix A.1, https://arxiv.org/abs/1812.06162
        """
        return (self.B * self.big - self.b * self.small) / (self.B - self.b)

    @property
    def expected(self) -> float:
        """The noise scale tr(Σ) / |G|²."""
        noise = (self.small - self.big) / (1 / self.b - 1 / self.B)
        return noise / self.signal

    def off(self, scale: float) -> float:
        """Return the big / small that gives this noise scale, over the right one."""
        if math.isclose(scale, -self.b, rel_tol=_ROUNDED):  # small is 0
            return math.inf
        share = self.b * (self.B + scale) / (self.B * (scale + self.b))
        return share * self.small / self.big


def cases(seed: int) -> Iterator[Case]:
    """Yield two launches with several measurements; expected are the norms of each."""
    numbers, first = random.Random(seed), 0
    for ranks, sizes in _LAUNCHES:
        if seed:
            drawn = numbers.sample(range(5, 18), 2), numbers.sample(range(2, 6), 2)
            sizes = list(zip(*drawn))
        measurements, expected = [], []
        for size, count in sizes:
            norms = None
            while norms is None or norms.signal < _SIGNAL * norms.big:
                images, labels = baseline.samples(first + ranks * size * count)
                data = images[first:], labels[first:]
                first = len(images) % 900
                norms = Norms(_gradients(data, ranks, size), size)
            measurements.append((*data, size))
            expected.append(norms)
        yield Case({"measurements": measurements}, ranks, expected=expected)


def _gradients(data, ranks, size):
    """The gradient of each rank in each batch, f64[batches, ranks, parameters]."""
    network = baseline.network().double()
    parameters, found = list(network.parameters()), []
    for images, labels in zip(data[0].double().split(size), data[1].split(size)):
        parts = torch.autograd.grad(cross_entropy(network(images), labels), parameters)
        found.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(found).unflatten(0, (-1, ranks))


def judge(case: Case, seen) -> str:
    """Compare each rank's number with that of one process, then work and traffic."""
    rows = list(zip(case.expected, zip(*(rank["measured"] for rank in seen))))
    ratios = [[_ratio(one, norms) for one in measured] for norms, measured in rows]
    for (norms, measured), found in zip(rows, ratios):
        moved, *costs = _facts(norms, measured)
        _TEXTS.refuse([moved], count=norms.count)
        for rank, (one, ratio) in enumerate(zip(measured, found)):
            if not _agree(ratio, 1):
                clue = {"ratios": dict(enumerate(ratios)), "type": one["type"]}
                said = shown(one["returned"])
                raise _other_number(norms, found, rank, returned=said, clue=clue)
        _TEXTS.refuse(costs, count=norms.count)
    scales = listed(f"{norms.expected:.1f}" for norms in case.expected)
    return f"{scales} images on {case.world_size} ranks"


def _ratio(one, norms):
    number = number_of(one["returned"])
    return None if number is None else number / norms.expected


def _agree(one, other):
    return one is not None and math.isclose(one, other, rel_tol=CLOSE)


def _facts(norms, measured):
    """What each rank did to the weights, computed and sent."""
    work = [one["flops"] / one["baseline"] for one in measured]
    sent = [one["sent"] for one in measured]
    numbers = sum(p.numel() for p in baseline.network().parameters())
    least = norms.count * numbers
    return (
        ("moved", [one["moved"] for one in measured], 0, 0, 0),
        ("other work", work, 1, _LEAST, _MOST),
        ("sent twice", sent, least, 0, _MOST * least),
    )


def _other_number(norms, ratios, rank, **fill):
    """The number of a rank is another one, or none; its hint looks at all ranks."""
    off = norms.off((ratios[rank] or 0) * norms.expected)
    if None in ratios:
        why = "no number"
    elif not all(_agree(ratios[0], ratio) for ratio in ratios):
        why = "not reduced"
    elif abs(ratios[0]) < CLOSE:
        why = "no noise"
    elif off > _FAR:
        why = "own ones far too small"
    else:
        why = "average too small" if off < 1 else "average too large"
    fill["clue"]["none"] = math.isinf(off)  # and not only few: their lengths are 0
    fill |= {"rank": rank, "ranks": norms.ranks, "count": norms.count, "b": norms.b}
    fill |= {"expected": norms.expected, "off": off}
    return _TEXTS.wrong("other number", why=why, **fill)


def failed(case: Case, wrong: Failed) -> str:
    """Give ranks that wait or crash a hint on the collectives of this exercise."""
    if "SIGSEGV" in str(wrong):
        wrong.hint = _TEXTS.hint("hook without return")
    elif wrong.error.kind in ("lost", "late", "stalled") or "SIGABRT" in str(wrong):
        wrong.hint = _TEXTS.hint("not the same")
    raise wrong
