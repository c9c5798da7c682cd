"""What goes wrong when replicas are kept equal by hand, and the hint for it."""

from functools import partial

import torch
from torch import nn

from course_lib.exercises import baseline
from course_lib.exercises.compare import gap, mistaken
from course_lib.exercises.device_runs import mixed
from course_lib.exercises.stages.stage03.watching import through_cpu

MOMENTUM = 0.9


def trained(data, *, scale=1.0, momentum=MOMENTUM, pick=slice(None)) -> dict:
    """The weights of one device after the batches, or after a known mistake."""
    picked = [(images[pick], labels[pick]) for images, labels in data]
    return baseline.weights_after(picked, scale=scale, momentum=momentum)


def why_apart(found: list, start: dict) -> str:
    """The hint for replicas that differ from each other."""
    others = range(1, len(found))
    odd = [i for i in others if gap(found[0], found[i]) > 1e-5]
    if all(gap(found[i], start) == 0 for i in odd):
        return (
            "Only the replica of device 0 is trained: the others are as they were at"
            " the start. All of them take every step."
        )
    if len(odd) == len(found) - 1 and _agree([found[i] for i in odd]):
        return (
            "Now it is the replica of device 0 that drifts: the others agree. Which"
            " gradient does its optimizer step with?"
        )
    if len(odd) == 1:
        return (
            f"Replica {odd[0]} drifts, the others agree. Right before step, compare its"
            " gradient with theirs: which line should have made them equal?"
        )
    return (
        "Most replicas step with a gradient of their own. The mean has to reach every"
        " one of them, in every step."
    )


def _agree(states):
    return all(gap(states[0], one) < 1e-5 for one in states)


def why(found: dict, data, *, start: dict, count: int) -> str:
    """The hint for replicas that agree on other weights than those of one device."""
    if gap(found, start) == 0:
        return "No replica takes a step: keep optimizer.step() for each of them."
    known = _known(len(data[0][0]), count)
    hint = mistaken(found, known, partial(trained, data), close=1e-5)
    if hint:
        return hint
    if gap(found, drifted(data, count)) < 1e-5:
        return (
            "The replicas are made equal at the end, but they drifted before, so their"
            " gradients were wrong. Keep them equal in every step."
        )
    return (
        "They agree, but the mean that they step with is not that of all gradients."
        " Look at the gradient of each replica when it is added."
    )


def _known(batch, count):
    order = torch.arange(batch)
    first, rest = order.chunk(count)[0], torch.cat(order.chunk(count)[1:])
    without = torch.cat([part for i, part in enumerate(order.chunk(count)) if i != 1])
    total = "The gradients are added up but not divided: keep the mean."
    lost = (
        "The replicas agree because the gradient of replica 1 is left out: its samples"
        " count for nothing. Bring the mean to it instead."
    )
    yield total, {"scale": count}
    yield "The mean is divided by the number of devices twice.", {"scale": 1 / count}
    yield (
        "All replicas step with the gradient of device 0 alone: the others' chunks"
        " count for nothing.",
        {"pick": first},
    )
    yield lost, {"pick": without}
    yield lost, {"pick": without, "scale": (count - 1) / count}
    yield "The gradient of device 0 is missing in the mean.", {"pick": rest}
    yield (
        "The momentum is gone. Keep the optimizers as they were: the mistake is not in"
        " them.",
        {"momentum": 0},
    )


def drifted(data, count: int) -> dict:
    """Replica 0 of the loop as it was given: replica 1 keeps its own gradient."""
    replicas = [baseline.network() for _ in range(count)]
    steps = [baseline.optimizer(one, momentum=MOMENTUM) for one in replicas]
    for images, labels in data:
        for replica, x, y in zip(replicas, images.chunk(count), labels.chunk(count)):
            replica.zero_grad()
            nn.functional.cross_entropy(replica(x), y).backward()
        for parameters in zip(*(replica.parameters() for replica in replicas)):
            mean = sum(p.grad for p in parameters) / count
            for number, parameter in enumerate(parameters):
                if number != 1:
                    parameter.grad = mean.clone()
        for step in steps:
            step.step()
    return replicas[0].state_dict()


def why_bytes(run: dict, batch, *, size: int, steps: int) -> str:
    """The hint for too many bytes."""
    names, transfers = run["devices"], run["trace"].transfers
    if through_cpu(transfers):
        return "Something goes through the CPU: copy straight from device to device."
    if any(one.bytes >= 4 * 64 * len(batch[0]) for one in transfers):
        return "Each replica needs its own chunk of the batch, not the whole batch."
    sent = [run["trace"].copied(source=names[0], target=name) for name in names[1:]]
    most = max(map(sum, sent))
    if most > 1.9 * steps * size:
        return (
            "The replicas agree, but weights travel in every step to hide the drift."
            " Find the line that lets one replica keep its own gradient."
        )
    return (
        "Per step the chunks go out, the gradients come to device 0, and their mean"
        " goes back: nothing else has to travel."
    )


def why_raised(error) -> str | None:
    """The hint for an answer that fails."""
    if mixed(error) or "assign a gradient" in str(error):
        return (
            "The mean lies on device 0; a gradient has to be on the device of its"
            " parameter: mean.to(parameter.device)."
        )
    return None
