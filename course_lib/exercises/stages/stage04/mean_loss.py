"""Exercise 4.5c: a mean loss that all ranks know and rank 0 prints."""

import re

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Attempt, Wrong
from course_lib.exercises.compare import CLOSE, group, near, number_of
from course_lib.text import short


@baseline.settled()
def check_mean_loss(attempt: Attempt) -> str:
    """Look at what each rank returns and prints."""
    for ranks in (2, 3):
        results = attempt(_mean_loss, world_size=ranks, why=_why_stuck)
        mean = sum(result["before"] for result in results) / ranks
        for rank, result in enumerate(results):
            if not near(result["mean"], mean):
                raise Wrong(
                    f"rank {rank} of {ranks} returned {result['said']},"
                    f" expected {mean:.4f}, the mean over all ranks",
                    _why_mean(results, mean),
                )
            if abs(result["after"] - result["before"]) > CLOSE:
                raise Wrong(
                    f"the loss of rank {rank} was {result['before']:.4f} and is now"
                    f" {result['after']:.4f}",
                    "all_reduce writes into the tensor that it is given. Give it a"
                    " copy: loss.detach().clone().",
                )
        _judge_prints(results, mean)
    return "every rank has the mean, rank 0 alone prints it, and nobody waits in vain"


def _mean_loss(rank, world_size, answer):
    with group(rank, world_size) as device:
        weight = torch.full((1,), 2.0, device=device, requires_grad=True)
        loss = (weight * (rank + 1) ** 2).mean()
        before = loss.item()
        mean = answer(rank, world_size, loss)
        after = loss.item()
        said, mean = short(mean), number_of(mean)
        return {"before": before, "after": after, "mean": mean, "said": said}


def _judge_prints(results, mean):
    ranks, output = len(results), results.output
    for rank in range(1, ranks):
        # other lines are no fault, nor are warnings, which arrive here, too
        if f"{mean:.3f}" in output[rank] or "mean loss" in output[rank]:
            raise Wrong(
                f"rank {rank} of {ranks} printed the loss, expected rank 0 alone",
                "Printing is what belongs under `if rank == 0`; the all-reduce does"
                " not.",
            )
    if f"{mean:.3f}" not in output[0]:
        raise Wrong(
            f"rank 0 of {ranks} printed {output[0].strip()[:60]!r}, expected"
            f" the mean loss {mean:.3f}",
            _why_print(results, mean),
        )


def _why_print(results, mean):
    """The hint for what rank 0 prints instead of the mean."""
    ranks, own = len(results), results[0]["before"]
    numbers = [float(text) for text in re.findall(r"\d+\.\d+", results.output[0])]

    def printed(*values):
        return any(near(n, value, 6e-4) for n in numbers for value in values)

    if printed(mean / ranks):
        return (
            f"Here the printed number is divided by {ranks} once more: what the ranks"
            " return is the mean already."
        )
    if printed(mean * ranks):
        return f"This prints the sum over {ranks} ranks: divide it, as in the return."
    if printed(own, own / ranks):
        return "This prints rank 0's own loss: print the mean."
    return "Rank 0 prints the mean with three digits: keep the line of the original."


def _why_mean(results, mean):
    ranks = len(results)
    found = [result["mean"] for result in results]
    if None in found:
        return "Every rank returns the mean as a number, not rank 0 alone."
    if all(near(one, ranks * mean) for one in found):
        return f"That is the sum over {ranks} ranks. Divide it by their number."
    if near(found[0], mean) and all(near(one, ranks * mean) for one in found[1:]):
        return "Divide on all ranks, not on rank 0 alone: the others have the sum."
    if ranks > 2 and all(near(one, ranks * mean / 2) for one in found):
        return "Divide by world_size, not 2: the function is for any number of ranks."
    if all(near(one, mean / ranks) for one in found):
        return f"The mean is divided twice by {ranks}: once is enough."
    own = [result["before"] for result in results]
    if all(map(near, found, own)):
        return (
            "That is the rank's own loss: nothing travelled. Without the all-reduce"
            " nothing hangs, but nobody knows the mean."
        )
    if all(near(ranks * one, loss) for one, loss in zip(found, own)):
        return (
            f"That is the rank's own loss, divided by {ranks} but not added up. The"
            " losses of all ranks must come together first."
        )
    return (
        "Every rank needs the mean: call all_reduce on all of them, reduce gives it to"
        " one."
    )


def _why_stuck(error):
    if error.kind not in ("lost", *STUCK):
        return None
    return (
        "A collective under `if rank == 0`: only rank 0 calls it, and waits for the"
        " others for ever. All ranks make the call, rank 0 prints."
    )
