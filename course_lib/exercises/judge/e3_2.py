"""Exercise 3.2, decided: replicas that a hand-written loop keeps equal, or does not."""

import copy
import random
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.device_runs import mixed
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e2_2 import gradient, weighed
from course_lib.exercises.judge.e3_1 import (
    SAMPLE,
    draw_transfers,
    links,
    refuse_other_work,
    too_much,
    why_mixed,
)
from course_lib.exercises.observe.e3_2 import flat, observe
from course_lib.exercises.values import shown
from course_lib.text import listed, many
from course_lib.text import size as said

_CLOSE = 1e-5  # weights; the planted mistake moves them by more than 1e-2
_CASES = ((4, 60, 5), (3, 36, 6))  # devices, samples in a batch, batches
_RATE, _MOMENTUM = 0.1, 0.9


def cases(seed: int) -> Iterator[Case]:
    """Two trainings on other numbers of devices, batches and samples.

    Expected are the weights and the gradients of the chunks before each step, and the
    weights at the end.
    """
    numbers = random.Random(seed)
    drawn = [
        (count, count * numbers.randint(8, 14), numbers.randint(4, 7))
        for count in numbers.sample((2, 3, 5, 6), 2)
    ]
    for count, batch, steps in drawn if seed else _CASES:
        model = baseline.network(seed)
        images, labels = baseline.samples(100 * seed + batch * steps)
        cut = (part[100 * seed :].split(batch) for part in (images, labels))
        given = {"model": model, "batches": list(zip(*cut)), "devices": count}
        yield Case(given, expected=_trained(model, given["batches"], count))


def _trained(model, batches, count):
    """Of one device: weights and the chunks' gradients before each step; the end."""
    model, steps = copy.deepcopy(model), []
    sgd = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=_MOMENTUM)
    for images, labels in batches:
        chunks = zip(images.chunk(count), labels.chunk(count))
        each = [gradient(model, cross_entropy(model(x), y)) for x, y in chunks]
        each = [flat(grads.values()) for grads in each]
        steps.append({"weights": flat(model.parameters()), "each": each})
        sgd.zero_grad()
        cross_entropy(model(images), labels).backward()
        sgd.step()
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    return {
        "steps": steps,
        "end": flat(model.parameters()),
        "sizes": sizes,
        "share": len(labels) // count,
    }


def judge(case: Case, seen) -> str:
    """Compare all replicas with each other and with one device, then count the cost."""
    [rank] = seen
    names, right = rank["devices"], case.expected
    _refuse_other(rank, right["end"])
    steps, batch = len(right["steps"]), len(case.given["batches"][0][1])
    where = f"{steps} steps on {len(names)} devices"
    _judge_replicas(rank, right, where)
    samples = {d: f / rank["baseline"]["flops"] for d, f in rank["flops"].items()}
    refuse_other_work(samples, names, [steps * batch // len(names)] * len(names))
    travelled = _judge_bytes(rank, steps=steps, batch=batch, where=where)
    return f"{where} ({said(travelled / steps)} for each)"


def _refuse_other(rank, end):
    names, places = rank["devices"], rank["places"]
    if len(places) != len(names) or len(rank["replicas"]) != len(names):
        raise Wrong(
            f"returned {shown(rank['returned'])}, expected the list of {len(names)}"
            " replicas",
            "Return replicas, the list with one model for each device, in the order of"
            " devices.",
        )
    for name, place, weights in zip(names, places, rank["replicas"]):
        if place != name:
            raise Wrong(
                f"the replica that belongs on {name} is on {shown(place)}",
                "One replica lives on each device, in the order of devices, and stays"
                " there: a deep copy of the model.",
            )
        if weights.shape != end.shape:
            raise Wrong(
                f"the replica of {name} has {weights.numel():,} weights, expected"
                f" {end.numel():,}",
                "Return the replicas themselves, each a copy of the model.",
            )


def _judge_replicas(rank, right, where):
    names, replicas = rank["devices"], rank["replicas"]
    apart = [_gap(one, replicas[0]) for one in replicas]
    off = _gap(replicas[0], right["end"])
    odd = [number for number, one in enumerate(apart) if not one <= _CLOSE]
    if not odd and off <= _CLOSE:
        return
    sentence = (
        f"all replicas agree, but differ from one device with whole batches by up to"
        f" {off:.2g}"
    )
    if odd:
        sentence = (
            f"the replica on {names[odd[0]]} differs from that on {names[0]} by up to"
            f" {apart[odd[0]]:.2g}, expected 0"
        )
    taken = [sum(s["device"] == name for s in rank["steps"]) for name in names]
    raise Wrong(
        f"{where}: {sentence}",
        " ".join(filter(None, (_who(odd, names), _first(rank, right, taken)))),
        clue={"apart": [one - right["end"] for one in replicas], "steps": taken},
    )


def _gap(one, other):
    """The largest difference; nan if there is one."""
    return (one.double() - other.double()).abs().max().item()


def _who(odd, names):
    """Which replicas differ from the first."""
    if len(odd) == 1:
        return f"Replica {odd[0]} drifts, the others agree."
    return f"{len(odd)} of {many(len(names), 'replica')} differ from the first." * bool(
        odd
    )


def _first(rank, right, taken):
    """What differs first from a right training: a gradient, a step, or their number."""
    names, expected = rank["devices"], right["steps"]
    wrong = [number for number, count in enumerate(taken) if count != len(expected)]
    if wrong and any(taken):
        return (
            f"The optimizer on {names[wrong[0]]} took {many(taken[wrong[0]], 'step')},"
            f" expected {len(expected)}: one for each batch, on each device. Do `step`"
            " and `return` stand in the right loop, and is no batch left out?"
        )
    if not any(taken):
        return "No replica takes a step: keep optimizer.step() for each of them."
    for number, step in enumerate(expected):
        for name in names:
            found = [s for s in rank["steps"] if s["device"] == name][number]
            place = f"on {name} at step {number + 1}"
            hint = _differs(found, step, place, sizes=right["sizes"])
            if hint:
                return hint + _share(rank, name, right)
    return (
        "Each step starts from the right weights with the right gradient, but ends"
        " elsewhere: something changes weights after the last step."
    )


def _share(rank, name, right):
    """For how many samples a device computed, if not for its share."""
    found = rank["flops"].get(name, 0) / rank["baseline"]["flops"] / len(right["steps"])
    if abs(found - right["share"]) < 0.02 * right["share"]:
        return ""
    return (
        f" {name} computed for {found:.3g} samples in each step, expected"
        f" {right['share']:g}: is a number written where len(devices) belongs?"
    )


def _differs(found, step, place, *, sizes):
    mean = sum(step["each"]) / len(step["each"])
    if {found["weights"].shape, found["gradient"].shape} != {mean.shape}:
        return f"The optimizer {place} does not have all parameters of its replica."
    if not _gap(found["weights"], step["weights"]) <= _CLOSE:
        return (
            f"The weights {place} are wrong, though the gradient before was right."
            " Keep the optimizers as they were: made once, before the loop, with their"
            " momentum; and let nothing else write to weights."
        )
    off = found["gradient"] - mean
    size = mean.abs().max().item()
    parts = zip(sizes, off.split(list(sizes.values())))
    wrong = [name for name, part in parts if not part.abs().max() <= 1e-3 * size]
    if not wrong:
        return ""
    chosen = torch.cat([torch.full((n,), name in wrong) for name, n in sizes.items()])
    told = weighed(
        {"": found["gradient"][chosen]},
        [{"": grad[chosen]} for grad in step["each"]],
        [1 / len(step["each"])] * len(step["each"]),
        off=1.0,
        noun="losses",
        of="chunks",
    )
    if told.startswith("No sum"):
        told = (
            f"The gradient {place} is no sum of those that the chunks have now. Is one"
            " of another step still in it, without zero_grad, or that of another chunk?"
        )
    told = told.replace("In this gradient", f"In the gradient {place}")
    if len(wrong) < len(sizes):
        told += f" So it is for {listed(wrong)}, but not for the other parameters."
    return f"{told} Right before step, each replica needs the mean of all gradients."


def _judge_bytes(rank, *, steps, batch, where):
    """The bytes that travelled: chunks out, gradients home, their mean back."""
    names, size = rank["devices"], baseline.size(baseline.network())
    others, sent = len(names) - 1, rank["sent"]
    found, gradients = sum(sent.values()), 2 * steps * others * size
    samples = steps * (batch - batch // len(names)) * SAMPLE
    needed = gradients + samples + others * size  # the copies at the start
    weights = sum(rank["weights"].values())
    clue = links(sent, names) | {"weights": weights}
    if weights > 2.5 * others * size:  # made equal once more before the first step
        raise Wrong(
            f"{where}: weights travelled, {said(weights)} to {listed(rank['weights'])},"
            f" expected {said(others * size)} for the copies at the start",
            "The replicas agree because weights travel in every step, which hides the"
            " drift or takes the place of the mean gradient. Only chunks, gradients and"
            " their mean may travel; then all step alike.",
            clue=clue,
        )
    if found < 0.95 * needed:
        raise Wrong(
            f"{where}: {said(found)} travelled, expected about {said(needed)}",
            "The replicas agree without the gradients of each other. Per step the"
            " chunks go out, the gradients come to device 0, and their mean goes back.",
            clue=clue,
        )
    if found > 1.05 * needed:
        out = (steps + 1) * size + steps * batch // len(names) * SAMPLE
        raise Wrong(
            f"{where}: {said(found)} travelled, expected at most {said(1.05 * needed)}",
            too_much(sent, names, out=out, home=steps * size, size=steps * size)
            + " Per step the chunks go out, the gradients come to device 0, and their"
            " mean goes back: nothing else has to travel.",
            clue=clue,
        )
    return found


def failed(case: Case, wrong: Wrong) -> str:
    """The hint for an answer that mixes devices."""
    if mixed(wrong.error):
        wrong.hint = why_mixed(str(wrong.error))
    elif "assign a gradient" in str(wrong.error):
        wrong.hint = (
            "The mean lies on device 0; a gradient has to be on the device of its"
            " parameter: mean.to(parameter.device)."
        )
    raise wrong


def draw(case: Case, seen):
    """What travelled in the training."""
    return draw_transfers(seen[0]["trace"])


EXERCISE = Exercise(
    "3.2",
    observe,
    cases,
    judge,
    proof="all replicas agree and have the weights of one device after {}",
    draw=draw,
    failed=failed,
)
