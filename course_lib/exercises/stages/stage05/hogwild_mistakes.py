"""What goes wrong when several processes train one model, and the hint for it."""

from course_lib.exercises.stages.stage05.counting_mistakes import (
    why_failed as why_other,
)
from course_lib.exercises.stages.stage05.updates import BATCH, LONGEST


def why_failed(error) -> str | None:
    """The hint for a launch that failed, or None."""
    if error.kind in ("Stuck", "late", "stalled") and "a lock is" not in str(error):
        return (
            "Processes wait for each other. Here nobody needs to wait, but for the"
            " parent that joins them."
        )
    return why_other(error)


def why_samples(seen: dict, processes: int, count: int) -> str:
    """The hint for processes that trained with too few, too many or no samples."""
    if seen["trained_here"] and not any(seen["backwards"]):
        return (
            "The process that calls train does all the training itself. The loop over"
            " the data belongs into the function that each process runs."
        )
    if not any(seen["backwards"]):
        return "No process calls backward, so there is nothing to learn from."
    sizes = {size for part in seen["sizes"] for size in part}
    read = max(seen["backwards"]) * max(sizes)
    whole = max(seen["backwards"]) <= LONGEST
    if whole and read * processes <= count + BATCH * processes:
        return (
            "Here each process goes through all samples. You gave each a share of them,"
            " as a DistributedSampler does."
        )
    if sizes != {BATCH}:
        return f"A batch has {BATCH} samples, in every process."
    return "Each process goes through the data once: one epoch, no more, no less."


def why_nothing(seen: dict) -> str:
    """The hint for weights that are still those of the start."""
    if not seen["shared"]:
        return (
            "Each process trained a copy of its own, and it is gone. Call"
            " model.share_memory() in the parent, before the first process starts, and"
            " train this very model."
        )
    begun = [0 < n < steps for n, steps in zip(seen["private"], seen["backwards"])]
    if any(begun):
        return (
            "The model is shared at first, but `p.data = ...` puts a private tensor in"
            " the place of the shared one. Write in place, `p.data -= ...`, or let the"
            " optimizer step."
        )
    if not any(seen["steps"]):
        return (
            "The model is shared, but nobody changes its weights: the optimizer never"
            " steps."
        )
    return (
        "The model is shared, but the optimizers change another one. Give each the"
        " parameters of the shared model."
    )


def why_far(seen: dict, averaged: bool) -> str:
    """The hint for updates that came with another factor."""
    if averaged and all(seen["private"]):
        return (
            "The processes trained copies, and `model` got the mean of these. One model"
            " must get every update: share it before the first start, and train this"
            " very one."
        )
    return (
        "Plain SGD takes from each weight 0.1 times its gradient: rate 0.1, no"
        " momentum, no factor for the number of processes."
    )


def why_lost(seen: dict) -> str:
    """The hint for updates that others have overwritten."""
    if not seen["shared"]:
        return (
            "The model is not in shared memory while the processes train. Call"
            " model.share_memory() in the parent, before the first process starts."
        )
    return (
        "A process that copies its own weights over the shared ones wipes out what"
        " others did since it read them. Step on the shared parameters themselves, in"
        " place: they then get the difference, not a copy."
    )
