"""What mistakes in exercise 6.3 give: quotients of other norms or other sizes."""

import torch

from course_lib.exercises.attempt import STUCK
from course_lib.exercises.stages.stage06.noise_norms import (
    Norms,
    agrees,
    noise,
    scale,
    signal,
)
from course_lib.exercises.stages.stage06.noise_sums import pieces, piles, sums


def why_none(results, rank: int) -> str:
    """The hint for a rank that returned no finite number."""
    seen = results[rank]
    if seen["none"] and rank:
        return "Each rank needs the number: return it outside of any `if rank == 0`."
    if seen["none"]:
        return "The function ends without a return: give back noise / signal."
    if "nan" in seen["said"] or "inf" in seen["said"]:
        return "Something is divided by zero here, B - b or a sum that stayed zero?"
    return "One number is asked for: tr(Σ) divided by |G|²."


def why_other(found: list, norms: Norms, *, travelled: bool) -> str:
    """The hint for the numbers that the ranks returned."""
    if all(one is None or abs(one) < 1e-4 * norms.expected for one in found):
        return _why_zero(travelled)
    for hint, values in _mistakes(norms):
        values = torch.as_tensor(values).expand(norms.ranks).tolist()
        if all(map(agrees, found, values)):
            return hint
    if None not in found and not all(agrees(one, found[0]) for one in found):
        return (
            "The ranks do not agree: what each one adds up must be all-reduced before"
            " the division."
        )
    return (
        "Per batch, add up |g|² of each rank's own gradient and |mean of g|². Means of"
        " both over all batches and ranks give |G|² and tr(Σ), by the formulas of the"
        " lesson."
    )


def _why_zero(travelled):
    if travelled:
        return (
            "Both norms are the same, so no noise is left. When DDP's backward returns,"
            " `.grad` holds the average: look at the rank's gradient before that, in a"
            " comm hook or under no_sync()."
        )
    return (
        "Both norms are the same, so no noise is left: no gradient was all-reduced,"
        " and what you take for the average is the rank's own one."
    )


def _mistakes(norms):
    """Pairs of a hint and the number that a mistake gives, or those of all ranks."""
    for part in (_quotients, _formulas, _sizes, sums, piles, pieces):
        yield from part(norms)


def _quotients(n):
    """Divided too early, or with what one rank has."""
    own = n.scale(n.local.mean(0), n.big)
    early = (
        "You average the quotients of single batches, and one with a small |G|² spoils"
        " the mean. Add up tr(Σ) and |G|² over all batches first, divide once."
    )
    yield early, n.scale(n.local.mean(1), n.average).mean()
    yield early, n.scale(n.local, n.average[:, None]).mean()
    yield early, n.scale(n.local, n.average[:, None]).mean(0)
    yield early, n.scale(n.local.mean(1), n.average).sum()
    yield (
        "Each rank takes its own norms alone, so the ranks differ: all-reduce the sum"
        " of |g|², too.",
        own,
    )
    yield (
        "Each rank divides by itself, and the quotients are averaged. All-reduce the"
        " norms, then divide.",
        own.mean(),
    )
    yield "Only rank 0's norms count here: all_reduce them, no broadcast.", own[0]
    yield "You add up the results of all ranks at the end.", n.expected * n.ranks


def _formulas(n):
    both, (b, B) = (n.small, n.big), n.sizes
    small, big = both
    trace, square = noise(both, n.sizes), signal(both, n.sizes)
    yield "The quotient is upside down: tr(Σ) stands above, |G|² below.", square / trace
    for times in (1, n.count, n.count * n.ranks):  # as a mean or as a sum
        yield "This is tr(Σ) alone. Divide it by |G|².", trace * times
        yield "This is |G|² alone. It belongs below tr(Σ).", square * times
    mixed = (
        "b and B are mixed up: b belongs to the rank's own gradient, B to the average,"
        " and in |G|² each norm is multiplied by its own size."
    )
    yield mixed, scale(both, (B, b))
    yield mixed, trace / ((B * small - b * big) / (B - b))
    yield "A noise cannot be negative: |g|² is the larger one.", -trace / square
    plus = "A minus belongs into |G|²: the noise is taken away, B·|G_B|² - b·|G_b|²."
    yield plus, trace / ((B * big + b * small) / (B - b))
    yield plus, trace / ((B * big + b * small) / (B + b))
    yield (
        "The average has noise as well, so its norm is no |G|² yet. Take the noise out:"
        " (B·|G_B|² - b·|G_b|²) / (B - b).",
        trace / big,
    )
    yield "|G|² is not divided by (B - b) yet.", trace / (square * (B - b))
    yield "tr(Σ) is not divided by (1/b - 1/B) yet.", (small - big) / square
    inverses = "tr(Σ) has the difference of 1/b and 1/B below, not that of the sizes."
    yield inverses, (small - big) / (B - b) / square
    yield inverses, (small - big) * (B - b) / square
    yield (
        "tr(Σ) is multiplied by (1/b - 1/B): divide.",
        (small - big) * (1 / b - 1 / B) / square,
    )
    yield (
        "The distances from the average are too short, as it was made of the same"
        " gradients: divide by world_size - 1, or by (1/b - 1/B).",
        (small - big) * b / square,
    )


def _sizes(n):
    b, B = n.sizes
    for ranks in {2, 4} - {n.ranks}:
        fixed = f"B = {ranks} * b holds for {ranks} ranks only: take world_size * b."
        yield fixed, scale((n.small, n.big), (b, ranks * b))
    yield (
        "`len(labels)` is b, the share of one rank. B is world_size times that.",
        n.expected / n.ranks,
    )
    yield "b counts images, it is not 1: len(labels).", n.expected / b
    yield (
        "Each norm is that of one batch's gradient: neither b nor B grows with the"
        " number of batches.",
        n.expected * n.count,
    )
    yield (
        "B holds the images of one step, and not those of all batches.",
        scale((n.small, n.big), (b, B * n.count)),
    )
    yield (
        "`len(batches)` is the number of batches, b is len(labels).",
        (n.expected * n.count / b),
    )


def why_failed(error) -> str | None:
    """The hint for an answer that raised or never ended, or None."""
    text = str(error)
    if error.kind == "ZeroDivisionError":
        return "Is B equal to b? b is the batch of this rank, B that of all ranks."
    if "can only be called once" in text:
        return "Register the hook once, before the loop."
    if "torch.futures.Future" in text or "'wait'" in text:
        return (
            "A comm hook returns a future, not a tensor or a Work:"
            " dist.all_reduce(..., async_op=True).get_future()."
        )
    if "SIGSEGV" in text:
        return (
            "DDP crashes if a hook has no return: the hook must give back its future,"
            " and what is called when that is done the averaged tensor."
        )
    if error.kind in ("lost", *STUCK) or "SIGABRT" in text:
        return (
            "All ranks must make the same all-reduces: none under `if rank == 0`, and"
            " as many as there are batches."
        )
    return None
