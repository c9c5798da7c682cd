"""Exercise 2.3: a mean over tokens from micro-batches that hold different numbers."""

from functools import partial

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import state_of
from course_lib.exercises.stages.stage02.observer import (
    Observer,
    judge_gradient,
    left_by,
    one_gpu,
    refuse_waste,
    why_failed,
)
from course_lib.exercises.stages.stage02.sentences import (
    CASES,
    batches_of,
    gradient,
    sentence_model,
    targets_in,
)
from course_lib.exercises.stages.stage02.tokens_mistakes import why


@baseline.settled()
def check_tokens(attempt: Attempt) -> str:
    """Compare the gradient with that of all sentences in one batch."""
    for lengths in CASES:
        data = batches_of(lengths)
        [seen] = attempt(_gradient, data, world_size=1, why=_why_failed)
        _judge(seen, data)
        rows = [len(part) for part in lengths]
        limits = {"size": max(rows), "whole": sum(rows), "passes": len(rows)}
        refuse_waste(seen["counts"], **limits)
    counts = [targets_in(batch) for batch in batches_of(CASES[0])]
    numbers = " + ".join(map(str, counts))
    return (
        f"every one of {numbers} tokens counts the same, also where one part has none"
    )


def _gradient(rank, world_size, answer, /, *given):
    [data] = given
    device, _ = one_gpu()
    model = sentence_model().to(device)
    observer = Observer(model)
    start = state_of(model)
    given = [tuple(part.to(device) for part in batch) for batch in data]
    answer(model, list(given))
    changed = any(
        not torch.equal(part.cpu(), other)
        for batch, others in zip(given, data)
        for part, other in zip(batch, others)
    )
    seen = {"counts": observer.counts, "changed": changed}
    return seen | left_by(model, start)


def _judge(seen, data):
    counts = [targets_in(batch) for batch in data]
    where = f"micro-batches with {', '.join(map(str, counts))} targets"
    judge_gradient(seen, gradient(data), where=where, why=partial(why, data))
    if seen["changed"]:
        raise Wrong(
            f"{where}: the gradient is right, but tokens or targets were overwritten",
            "Work on copies: what was given is still needed in the next epoch.",
        )


def _why_failed(error):
    if "Expected target size" in str(error) or "Expected input batch" in str(error):
        return (
            "cross_entropy wants one row of 20 logits for each target:"
            " `logits.flatten(0, 1)` and `targets.flatten()`."
        )
    if "out of bounds" in str(error) or "out of range" in str(error):
        return (
            "cross_entropy leaves out targets of -100 by itself. Another ignore_index"
            " makes it read them as words."
        )
    return why_failed(error)
