"""Exercise 6.3, decided: the gradient noise scale, measured in launches with DDP."""

import math
import random
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e6_3 import observe
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

CLOSE = 1e-3  # relative: what is right
_LEAST, _MOST = 0.6, 1.4  # of the work and the traffic that are needed
_NOTHING = 1e6  # times too large beside a norm that is 0
_SIGNAL = 0.3  # share of |G|² in |g|² of the average, so that rounding does not count
# ranks, and for each measurement the images of a rank's batch and the batches
_LAUNCHES = ((3, ((10, 4), (7, 3), (16, 2))), (2, ((16, 5), (5, 6))))


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
        """big / small for which the formulas give this noise scale, over the right."""
        below = self.B * (scale + self.b)
        share = self.b * (self.B + scale) / below if below else math.inf
        return share * self.small / self.big


def cases(seed: int) -> Iterator[Case]:
    """Two launches with several measurements; expected are the norms of each."""
    numbers, first = random.Random(seed), 0
    for ranks, sizes in _drawn(numbers) if seed else _LAUNCHES:
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


def _drawn(numbers):
    for ranks in (numbers.choice((3, 4, 5)), 2):
        sizes = numbers.sample(range(5, 18), 2)
        counts = numbers.sample(range(2, 6), 2)
        yield ranks, list(zip(sizes, counts))


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
    table = list(zip(*(rank["measured"] for rank in seen)))
    rows = list(zip(case.expected, table))
    for norms, measured in rows:
        if any(one["moved"] for one in measured):
            raise Wrong(
                f"after the last batch of {norms.count} the weights have changed",
                "The norms are those of gradients at the same weights: no optimizer"
                " step here, and nothing else that writes into parameters.",
            )
        for rank, one in enumerate(measured):
            if not _is_right(one, norms):
                raise _other(rows, (norms, rank), one)
        _refuse_costs(measured, norms)
    scales = listed(f"{norms.expected:.1f}" for norms in case.expected)
    return f"{scales} images on {case.world_size} ranks"


def _is_right(one, norms):
    found = number_of(one["returned"])
    return found is not None and math.isclose(found, norms.expected, rel_tol=CLOSE)


def _other(rows, place, one):
    """The number of a rank is another one, or none."""
    norms, rank = place
    found = number_of(one["returned"])
    said = shown(one["returned"]) if found is None else f"{found:.5g}"
    numbers = [[number_of(one["returned"]) for one in found] for _, found in rows]
    ratios = [
        [None if number is None else number / row[0].expected for number in part]
        for row, part in zip(rows, numbers)
    ]
    return Wrong(
        f"rank {rank} of {norms.ranks} returned {said}, expected {norms.expected:.5g}"
        f" ({norms.count} batches of {norms.b} images on each rank)",
        _why(rows, numbers),
        clue={"ratios": dict(enumerate(ratios)), "type": one["type"]},
    )


def _why(rows, numbers):
    """The hint for numbers by measurement and rank, by what they have in common."""
    if any(None in part for part in numbers):
        return "One number is asked for, from every rank: tr(Σ) divided by |G|²."
    if not all(_agree(part[0], one) for part in numbers for one in part):
        return (
            "The ranks do not agree: what each one adds up must be all-reduced before"
            " the division."
        )
    found = [(part[0], norms) for part, (norms, _) in zip(numbers, rows)]
    if all(abs(one) < CLOSE * norms.expected for one, norms in found):
        return _why_zero(rows)
    for said, amount in _AMOUNTS.items():
        if all(_agree(one, norms.expected * amount(norms)) for one, norms in found):
            return (
                f"The number is {said} the expected one. b and B are the images of one"
                " batch, on one rank and on all; both norms are means over the same"
                " batches and ranks."
            )
        if all(_agree(norms.off(one), amount(norms)) for one, norms in found):
            return (
                f"By the formulas, |g|² of the average is {said} what it must be,"
                " beside that of the own gradients. Both are means, over batches and"
                " ranks, of squared lengths; the average is a sum divided by"
                " world_size, after the all-reduce."
            )
    return _why_share(*found[0])


def _why_share(one, norms):
    """The hint for a number, by the quotient of norms for which it would be right."""
    off = norms.off(one)
    if abs(off) > _NOTHING or off < 0.001:
        if off < -0.001 and abs(off) < _NOTHING:
            return (
                "No squared lengths give this number by the formulas of the lesson. Is"
                " one of the formulas another one? |G|² = (B * big - b * small) /"
                " (B - b) and tr(Σ) = (small - big) / (1 / b - 1 / B)."
            )
        which = "the average" if abs(off) < 1 else "the own gradients"
        return (
            f"By the formulas, |g|² of {which} is 0. Is a hook never called? It is"
            " model(images), not model.module(images), that averages gradients."
        )
    told = (
        f"By the formulas, |g|² of the average is {off:.3g} times what it must be,"
        " beside that of the own gradients."
    )
    if 0.85 < off < 1.15:
        return (
            f"{told} That is nearly right: is a bucket or a batch left out of one of"
            " them, or is a mean of lengths squared?"
        )
    if off > 1:
        return (
            f"{told} Either the own ones are too small (a bucket or a batch left out or"
            " overwritten, a mean for a sum), or the average is too large (a sum over"
            " ranks, gradients of earlier batches)."
        )
    return (
        f"{told} Either the average is too small (a bucket or a batch left out or"
        " overwritten, divided twice, averaged over batches, too), or the own ones are"
        " too large (a sum for a mean, gradients of earlier batches)."
    )


def _agree(one, other):
    return math.isclose(one, other, rel_tol=CLOSE)


# what a missing factor is called
_AMOUNTS = {
    "world_size times": lambda n: n.ranks,
    "1 / world_size times": lambda n: 1 / n.ranks,
    "world_size² times": lambda n: n.ranks**2,
    "1 / world_size² times": lambda n: n.ranks**-2,
    "as often as there are batches (len(batches) times)": lambda n: n.count,
    "1 / len(batches) times": lambda n: 1 / n.count,
    "b times": lambda n: n.b,
    "1 / b times": lambda n: 1 / n.b,
    "B times": lambda n: n.B,
    "1 / B times": lambda n: 1 / n.B,
    "-1 times": lambda _: -1,
}


def _why_zero(rows):
    sent = max(one["sent"] for _, measured in rows for one in measured)
    if sent > _parameters():
        return (
            "Both norms are the same, so no noise is left. When DDP's backward returns,"
            " `.grad` holds the average: look at the rank's gradient before that, in a"
            " comm hook or under no_sync()."
        )
    return (
        "Both norms are the same, so no noise is left: no gradient was all-reduced,"
        " and what you take for the average is the rank's own one."
    )


def _parameters():
    return sum(p.numel() for p in baseline.network().parameters())


def _refuse_costs(measured, norms):
    least = norms.count * _parameters()
    for rank, one in enumerate(measured):
        times = one["flops"] / one["baseline"]
        where = f"rank {rank} of {norms.ranks}"
        passes = f"what {norms.count} forward and backward passes need"
        if times > _MOST:
            raise Wrong(
                f"{where} computed {times:.2g} times {passes}",
                "The number is right, but the work is done twice. One backward gives"
                " both norms: that of the rank's own gradient before the all-reduce,"
                " that of the average after.",
            )
        if times < _LEAST:
            raise Wrong(
                f"{where} computed {100 * times:.0f} % of {passes}",
                "The number is right, but it was computed elsewhere. Each rank runs"
                " forward and backward once for each of its batches.",
            )
        if one["sent"] > _MOST * least:
            raise Wrong(
                f"{where} handed {one['sent']:,} numbers to collectives for"
                f" {norms.count} batches, expected about {least:,}",
                "The number is right, but the gradients travel more than once. Either"
                " let DDP average them, or keep it from that with no_sync() and call"
                " all_reduce yourself.",
            )


def failed(case: Case, wrong: Wrong) -> str:
    """Ranks that wait or crash: the collectives of this exercise."""
    if wrong.error.kind in ("lost", "late", "stalled") or "SIGABRT" in str(wrong):
        wrong.hint = (
            "All ranks must make the same all-reduces: none under `if rank == 0`, and"
            " as many as there are batches."
        )
    if "SIGSEGV" in str(wrong):
        wrong.hint = (
            "DDP crashes if a hook has no return: the hook must give back its future,"
            " and what is called when that is done the averaged tensor."
        )
    raise wrong


EXERCISE = Exercise(
    "6.3",
    observe,
    cases,
    judge,
    proof="{}, as one process finds it, and each gradient travelled once",
    failed=failed,
)
