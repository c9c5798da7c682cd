"""Exercise 4.4: accumulate gradients with one all-reduce per step."""

import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import (
    CLOSE,
    agree,
    gap,
    gradients,
    group,
    state_of,
    steps_of,
)
from course_lib.exercises.stages.stage04.accumulating_mistakes import (
    BATCH,
    STEPS,
    whole,
    why,
)


@baseline.settled()
def check_accumulate(attempt: Attempt) -> str:
    """Compare weights with those of whole batches, and count the all-reduces."""
    data = baseline.samples(STEPS * BATCH)
    expected = whole(data)
    size = baseline.size(baseline.network())
    # four micro-batches first: how an answer goes through two says less
    for ranks, parts in ((2, 4), (4, 2)):
        results = attempt(_steps, data, parts, world_size=ranks, trace=True)
        if ranks == 2:
            attempt.draw(steps_of(results.trace, 0, 2))
        sizes = gradients(results.trace, 0)
        if len(sizes) != STEPS or sum(sizes) > 1.1 * STEPS * size:
            raise Wrong(
                f"rank 0 of {ranks} made {len(sizes)} all-reduces of"
                f" {sum(sizes):,} bytes in {STEPS} steps of {parts} micro-batches,"
                f" expected {STEPS} of {STEPS * size:,} bytes",
                _why_count(sizes, results[0], parts),
            )
        found = agree(
            [result["weights"] for result in results],
            expected,
            hint=_why_apart(results[0], parts),
        )
        if gap(found, expected) > CLOSE:
            raise Wrong(
                f"after {STEPS} steps the weights differ from those of whole batches"
                f" by up to {gap(found, expected):.2g}, expected at most {CLOSE:g}",
                why(found, data, seen=results[0], ranks=ranks, parts=parts),
            )
        _refuse_memory(results[0], ranks, parts)
        _refuse_waste(results.trace, size)
    return (
        f"one all-reduce of {size:,} bytes per step on 2 and 4 ranks, weights as with"
        " whole batches"
    )


def _steps(rank, world_size, answer, /, *given):
    (images, labels), parts = given
    with group(rank, world_size) as device:
        model = DDP(baseline.network(seed=rank).to(device))
        optimizer = baseline.optimizer(model)
        seen = _Seen(model, optimizer)
        for step in range(STEPS):
            own = slice(step * BATCH + rank, (step + 1) * BATCH, world_size)
            batch = images[own].to(device), labels[own].to(device)
            answer(model, optimizer, list(zip(*(part.chunk(parts) for part in batch))))
        weights = state_of(model.module.state_dict())
        return {"weights": weights, **seen.counts}


class _Seen:
    """What an answer does with model and optimizer, to tell its mistake."""

    def __init__(self, model, optimizer):
        self.counts = {"sends": [], "asked": 0, "quiet": 0, "steps": 0}
        self.counts |= {"called": 0, "waiting": 0, "most": 0, "largest": 0}
        self._no_sync, model.no_sync = model.no_sync, self._asked
        model.register_forward_pre_hook(self._forward)
        model.module.register_forward_pre_hook(self._inner)
        some = next(model.parameters())
        some.register_post_accumulate_grad_hook(self._backward)
        optimizer.register_step_post_hook(self._step)

    def _asked(self):
        self.counts["asked"] += 1
        return self._quiet()

    @contextlib.contextmanager
    def _quiet(self):
        self.counts["quiet"] += 1
        with self._no_sync():
            yield

    def _forward(self, model, _):
        self.counts["sends"].append(model.require_backward_grad_sync)

    def _inner(self, _, inputs):
        """Note a forward pass, also of the plain model, that a backward may follow."""
        if torch.is_grad_enabled() and inputs:
            counts = self.counts
            counts["called"] += 1
            counts["waiting"] += 1
            counts["most"] = max(counts["most"], counts["waiting"])
            counts["largest"] = max(counts["largest"], len(inputs[0]))

    def _backward(self, _):
        self.counts["waiting"] = 0

    def _step(self, *_):
        self.counts["steps"] += 1


def _refuse_memory(seen, ranks, parts):
    size = BATCH // (ranks * parts)
    if seen["largest"] > size:
        raise Wrong(
            f"rank 0 of {ranks} put {seen['largest']} samples through the model at"
            f" once, expected micro-batches of {size}",
            "The step is right, but its activations need the memory of a whole batch,"
            " which accumulation saves. Take one micro-batch at a time.",
        )
    if seen["most"] > 2:
        raise Wrong(
            f"rank 0 of {ranks} ran {seen['most']} forward passes before a backward"
            " pass, expected 1",
            "The step is right, but the activations of all micro-batches stay in memory"
            " until backward. Call backward right after each forward.",
        )


def _refuse_waste(trace, size):
    moved, least = trace.bytes(0), (STEPS + 1) * size  # DDP sends the weights once
    if moved > 1.25 * least:
        raise Wrong(
            f"rank 0 of {len(trace.ranks)} handed {moved:,} bytes to collectives,"
            f" expected {least:,}",
            "The weights are right, but more travels than the gradients. DDP keeps the"
            " weights equal without another collective.",
        )


def _why_count(sizes, seen, parts):
    if not seen["sends"] and seen["called"]:
        return (
            "You call model.module, so DDP takes no part. Call model: its backward"
            " sends the gradients."
        )
    if not seen["sends"]:
        return "No micro-batch goes through the model, so there is nothing to send."
    if not sizes:
        return (
            "Every micro-batch is under no_sync, so no gradient ever travels. The last"
            " one of a step must run outside of it."
        )
    if len(sizes) == parts * STEPS and all(seen["sends"]):
        if seen["quiet"]:
            return (
                "The forward pass stands outside no_sync, and there DDP decides whether"
                " the next backward sends. Put forward and backward inside."
            )
        if seen["asked"]:
            return (
                "model.no_sync() alone does nothing: it needs `with` before it, and"
                " forward and backward inside."
            )
        return (
            "Each backward sends its gradients. Run all micro-batches but the last"
            " under model.no_sync()."
        )
    return (
        "Let DDP send the gradients, once: in the backward of the last micro-batch."
        " Nothing else needs to travel."
    )


def _why_apart(seen, parts):
    if seen["steps"] == parts * STEPS:
        return (
            "The optimizer steps after each micro-batch, with gradients that have not"
            " travelled. Step once, after the last one."
        )
    sends = seen["sends"][:parts]
    if sends.count(True) == 1 and not sends[-1]:
        return (
            f"The gradients travel with micro-batch {sends.index(True) + 1} of {parts},"
            " and what is added later stays on its rank. The last one must send."
        )
    return "Some gradients stayed on their rank: the last backward of a step must send."
