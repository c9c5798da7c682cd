"""Exercise 4.4, decided: accumulated gradients that travel once in a step."""

import functools
import random
from collections.abc import Iterator
from math import isfinite

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import CLOSE, apart, gap, largest, steps_of
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e2_2 import gradient, refuse_other_work, weighed
from course_lib.exercises.observe.e4_4 import observe
from course_lib.text import listed, many

_STEPS = 3
SMALL = 32  # bytes: a loss to report or a note of DDP's own, no gradient
_SGD = functools.partial(torch.optim.SGD, lr=baseline.RATE)
# its steps are no sum over ranks; a small `eps` would make much of rounding
_ADAM = functools.partial(torch.optim.Adam, lr=0.01, eps=1e-3)
# ranks, micro-batches, samples in each
_SIZES = ((2, 6, 5), (3, 4, 4), (5, 2, 3))


def cases(seed: int) -> Iterator[Case]:
    """SGD twice, then Adam: it tells a mean of gradients from a mean of weights.

    Expected are, for each step, the gradient of each micro-batch's mean loss, rank by
    rank, and the weights after the step of one process.
    """
    sizes = _SIZES if not seed else _drawn(random.Random(seed))
    for (ranks, parts, size), make in zip(sizes, (_SGD, _SGD, _ADAM)):
        count = ranks * parts * size
        images, labels = baseline.samples(count * (seed + _STEPS))
        batches = list(zip(images.split(count), labels.split(count)))[-_STEPS:]
        given = {"batches": batches, "parts": parts, "optimizer": make}
        expected = list(_alone(batches, make, ranks=ranks, parts=parts))
        yield Case(given, world_size=ranks, trace=True, expected=expected)


def _drawn(numbers):
    for ranks in numbers.sample((2, 3, 4, 5), 3):
        yield ranks, numbers.choice((3, 4, 5, 6)), numbers.randint(2, 5)


def _alone(batches, make, *, ranks, parts):
    """One process: pairs of each micro-batch's gradient and the weights after it."""
    model = baseline.network()
    optimizer = make(model.parameters())
    for images, labels in batches:
        own = [(images[r::ranks], labels[r::ranks]) for r in range(ranks)]
        pairs = [zip(x.chunk(parts), y.chunk(parts)) for x, y in own]
        each = [
            gradient(model, cross_entropy(model(x), y)) for p in pairs for x, y in p
        ]
        for name, parameter in model.named_parameters():
            parameter.grad = sum(grads[name] for grads in each) / len(each)
        optimizer.step()
        yield each, {n: p.detach().clone() for n, p in model.named_parameters()}


def judge(case: Case, seen) -> str:
    """Count updates and all-reduces, compare the weights, then look at the cost."""
    parts, ranks = case.given["parts"], case.world_size
    size = _bytes(case.expected[0][1])
    turns = [
        (number, rank, f"in step {number + 1} rank {rank} of {ranks}")
        for number in range(_STEPS)
        for rank in range(ranks)
    ]
    for number, rank, where in turns:
        _refuse_updates(_step(seen, rank, number), where)
    for number, rank, where in turns:
        _refuse_sent(_step(seen, rank, number), size, where)
    for number in range(_STEPS):
        found = [_step(seen, rank, number) for rank in range(ranks)]
        _refuse_weights(found, case, number)
    for number, rank, where in turns:
        step = _step(seen, rank, number)
        _refuse_memory(step, len(case.given["batches"][0][0]) // (ranks * parts), where)
        refuse_other_work(step, step["baseline"], seen[rank]["device"])
        _refuse_waste(step, size, where)
    return f"{parts} micro-batches on {ranks} ranks"


def _step(seen, rank, number):
    return seen[rank]["steps"][number]


def _bytes(state):
    return sum(value.nbytes for value in state.values())


def _refuse_updates(step, where):
    if step["updates"] != 1:
        raise Wrong(
            f"{where} the optimizer took {many(step['updates'], 'step')}, expected 1",
            "One list of micro-batches is one step of the optimizer: after the last"
            " micro-batch, with the gradients of all ranks.",
            clue={"updates": step["updates"]},
        )


def _gradients(step):
    """The bytes of the all-reduces after each forward pass, but the small ones."""
    return [
        [size for name, size in calls if name == "all_reduce" and size > SMALL]
        for calls in step["sent"]
    ]


def _refuse_sent(step, size, where):
    sent = _gradients(step)
    every, after = sum(sent, []), [i for i, calls in enumerate(sent) if calls]
    passes = len(sent) - 1
    found = f"{where} made {many(len(every), 'all-reduce')} of {sum(every):,} bytes"
    if len(every) != 1 or not 0.9 < every[0] / size < 1.1:
        raise Wrong(
            f"{found}, expected 1 of {size:,} bytes",
            _why_sent(after, passes, step["ddp"]),
            clue={"sent": sent},
            also=step["ddp"],
        )
    if after != [passes]:
        raise Wrong(
            f"{found} after forward pass {after[0]} of {passes}, expected after the"
            " last one",
            f"The gradients travel with micro-batch {after[0]}, and what is added later"
            " stays on its rank. The last one must send.",
        )


def _why_sent(after, passes, ddp):
    """The hint for all-reduces that follow these forward passes, counted from 1."""
    if passes < 1:
        return "No micro-batch goes through the model, so there is nothing to send."
    if not ddp["forward"]:
        return (
            "You call model.module, so DDP takes no part. Call model: its backward"
            " sends the gradients."
        )
    if not after:
        return (
            f"No all-reduce follows any of the {passes} forward passes, so the"
            " gradients stay on their rank. The last micro-batch of a step must run"
            " outside of no_sync."
        )
    if after == [passes]:
        return (
            "Let DDP send the gradients, once: in the backward of the last micro-batch."
            " Nothing else needs to travel, and nothing in other precision."
        )
    if ddp["no_sync"] and not ddp["quiet"]:
        return (
            "model.no_sync() alone does nothing: it needs `with` before it, and forward"
            " and backward inside."
        )
    return (
        f"All-reduces follow forward passes {listed(after)} of {passes}, and only the"
        " last one may send. DDP decides in the forward pass: forward and backward of"
        " all others belong under `with model.no_sync():`."
    )


def _refuse_weights(found, case, number):
    """Compare the weights of all ranks after a step with those of one process."""
    each, expected = case.expected[number]
    ranks, parts = case.world_size, case.given["parts"]
    gaps = [gap(step["weights"], expected) for step in found]
    if max(gaps) <= CLOSE:
        return
    rank, between = gaps.index(max(gaps)), [0.0]
    if isfinite(max(gaps)):
        between = [gap(step["weights"], found[0]["weights"]) for step in found]
        rank = between.index(max(between))
    told = f"the weights differ from those of whole batches by up to {max(gaps):.2g}"
    if max(between) > CLOSE:
        told = f"rank {rank} of {ranks} has other weights than rank 0: they differ by"
        told += f" up to {max(between):.2g}"
    raise Wrong(
        f"after step {number + 1} {told}, expected at most {CLOSE:g}",
        _why_weights(found[rank]["gradient"], each, rank=rank, parts=parts),
        clue={
            "step": number,
            "apart": [apart(step["weights"], expected) for step in found],
        },
    )


def _why_weights(grads, each, *, rank, parts):
    """The hint for a step: by how much each micro-batch counts in its gradient."""
    right = {n: sum(part[n] for part in each) / len(each) for n in each[0]}
    off = gap(grads, right) / largest(right)
    if off == float("inf"):
        return "When the optimizer steps, each parameter needs a gradient of numbers."
    if off <= CLOSE:
        return (
            "The gradient is right when the optimizer steps. Leave the rest to it: what"
            " it made of the weights is changed before, or afterwards."
        )
    shares = [1 / len(each)] * len(each)
    counts = weighed(grads, each, shares, off=off, noun="mean losses")
    return (
        f"This is about the gradient on rank {rank} when the optimizer steps. The first"
        f" {parts} micro-batches are those of rank 0, the next those of rank 1, and so"
        f" on. {counts}"
    )


def _refuse_memory(step, size, where):
    if max(step["passes"], default=0) > size:
        raise Wrong(
            f"{where} put {max(step['passes'])} samples through the model at once,"
            f" expected micro-batches of {size}",
            "The step is right, but its activations need the memory of a whole batch,"
            " which accumulation saves. Take one micro-batch at a time.",
        )
    if step["graphs"] > 1:
        raise Wrong(
            f"{where} ran {step['graphs']} forward passes before a backward pass,"
            " expected 1",
            "The step is right, but the activations of several micro-batches wait in"
            " memory until backward. Call backward right after each forward.",
        )


def _refuse_waste(step, size, where):
    moved = sum(count for calls in step["sent"] for _, count in calls)
    if moved > 1.25 * size:
        raise Wrong(
            f"{where} handed {moved:,} bytes to collectives, expected {size:,}",
            "The weights are right, but more travels than the gradients. DDP keeps the"
            " weights equal without another collective.",
        )


def draw(case: Case, seen):
    """The timeline of the second and third step, or of all that was recorded."""
    from course_lib.plots.timeline import plot_timeline

    return plot_timeline(steps_of(seen.trace, 0, 2) or seen.trace)


EXERCISE = Exercise(
    "4.4",
    observe,
    cases,
    judge,
    proof="the gradients travel once in a step of {}, and the weights are those of"
    " whole batches, by SGD and by Adam",
    draw=draw,
)
