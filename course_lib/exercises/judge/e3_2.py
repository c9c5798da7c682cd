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
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import listed, many
from course_lib.text import size as said

_TEXTS = Texts("3.2")
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
    end, share = flat(model.parameters()), len(labels) // count
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    return {"steps": steps, "end": end, "sizes": sizes, "share": share}


def judge(case: Case, seen) -> str:
    """Compare all replicas with each other and with one device, then count the cost."""
    [rank] = seen
    names, right = rank["devices"], case.expected
    steps, batch = len(right["steps"]), len(case.given["batches"][0][1])
    where = f"{steps} steps on {len(names)} devices"
    _refuse_other(rank, right["end"])
    _judge_replicas(rank, right, where)
    refuse_other_work(rank, rank["flops"], [steps * batch // len(names)] * len(names))
    _judge_bytes(rank, right, batch=batch, where=where)
    return f"{where} ({said(sum(rank['sent'].values()) / steps)} for each)"


def _refuse_other(rank, end):
    names, places, replicas = rank["devices"], rank["places"], rank["replicas"]
    if not len(places) == len(replicas) == len(names):
        told = shown(rank["returned"])
        raise _TEXTS.wrong("no list", returned=told, count=len(names))
    for name, place, weights in zip(names, places, replicas):
        if place != name:
            raise _TEXTS.wrong("elsewhere", name=name, place=shown(place))
        if weights.shape != end.shape:
            counts = {"weights": weights.numel(), "expected": end.numel()}
            raise _TEXTS.wrong("other weights", name=name, **counts)


def _judge_replicas(rank, right, where):
    names, replicas = rank["devices"], rank["replicas"]
    apart = [_gap(one, replicas[0]) for one in replicas]
    off = _gap(replicas[0], right["end"])
    odd = [number for number, one in enumerate(apart) if not one <= _CLOSE]
    if not odd and off <= _CLOSE:
        return
    by_device = [[s for s in rank["steps"] if s["device"] == name] for name in names]
    taken = [len(steps) for steps in by_device]
    clue = {"apart": [one - right["end"] for one in replicas], "steps": taken}
    hint = _first(rank, right, by_device)
    if not odd:
        raise _TEXTS.wrong("all wrong", hint=hint, where=where, off=off, clue=clue)
    fill = {"odd": odd[0], "count": len(odd), "all": many(len(names), "replica")}
    who = _TEXTS.hint("one drifts" if len(odd) == 1 else "some drift", **fill)
    fill = {"odd": names[odd[0]], "first": names[0], "apart": apart[odd[0]]}
    raise _TEXTS.wrong("apart", hint=f"{who} {hint}", where=where, clue=clue, **fill)


def _gap(one, other):
    """The largest difference; nan if there is one."""
    return (one - other).abs().max().item()


def _first(rank, right, by_device):
    """What differs first from a right training: the number of steps, or one of them."""
    names, steps = rank["devices"], right["steps"]
    if not any(by_device):
        return _TEXTS.hint("no steps")
    for name, found in zip(names, by_device):
        if len(found) != len(steps):
            took = many(len(found), "step")
            return _TEXTS.hint("other steps", device=name, took=took, steps=len(steps))
    for number, step in enumerate(steps):
        mean = sum(step["each"]) / len(step["each"])
        for name, found in zip(names, by_device):
            place = f"on {name} at step {number + 1}"
            fill = {"place": place, "sizes": right["sizes"]}
            if hint := _differs(found[number], step, mean, **fill):
                return hint + _share(rank, name, right)
    return _TEXTS.hint("after the steps")


def _differs(found, step, mean, *, place, sizes):
    """What differs in a step of one device; nothing if it is right."""
    gradient, each = found["gradient"], step["each"]
    if {found["weights"].shape, gradient.shape} != {mean.shape}:
        return _TEXTS.hint("parameters missing", place=place)
    if not _gap(found["weights"], step["weights"]) <= _CLOSE:
        return _TEXTS.hint("weights", place=place)
    parts = zip(sizes, (gradient - mean).split(list(sizes.values())))
    most = 1e-3 * mean.abs().max()
    wrong = [name for name, part in parts if not part.abs().max() <= most]
    if not wrong:
        return ""
    chosen = torch.cat([torch.full((n,), name in wrong) for name, n in sizes.items()])
    told = weighed(
        {"": gradient[chosen]},
        [{"": grad[chosen]} for grad in each],
        [1 / len(each)] * len(each),
        off=1.0,
        noun="losses",
        of="chunks",
    )
    if told.startswith("No sum"):
        told = _TEXTS.hint("no sum", place=place)
    told = [told.replace("In this gradient", f"In the gradient {place}")]
    if len(wrong) < len(sizes):
        told.append(_TEXTS.hint("some parameters", wrong=listed(wrong)))
    return " ".join([*told, _TEXTS.hint("mean")])


def _share(rank, name, right):
    """For how many samples a device computed, if not for its share."""
    one, share = rank["baseline"]["flops"] * len(right["steps"]), right["share"]
    samples = rank["flops"].get(name, 0) / one
    if abs(samples - share) < 0.02 * share:
        return ""
    return " " + _TEXTS.hint("other share", device=name, samples=samples, share=share)


def _judge_bytes(rank, right, *, batch, where):
    """Refuse other bytes than those of chunks out, gradients home, their mean back."""
    names, sent, steps = rank["devices"], rank["sent"], len(right["steps"])
    others, size = len(names) - 1, right["end"].nbytes
    share = steps * batch // len(names) * SAMPLE
    # the copies at the start, and both ways in each step
    needed = (1 + 2 * steps) * others * size + others * share
    found, weights = sum(sent.values()), sum(rank["weights"].values())
    clue = links(sent, names) | {"weights": weights}
    fill = {"where": where, "sent": said(found), "needed": said(needed), "clue": clue}
    if weights > 2.5 * others * size:  # made equal once more before the first step
        fill |= {"weights": said(weights), "copies": said(others * size)}
        raise _TEXTS.wrong("weights travel", targets=listed(rank["weights"]), **fill)
    if found < 0.95 * needed:
        raise _TEXTS.wrong("too few bytes", **fill)
    if found > 1.05 * needed:
        way = {"out": (steps + 1) * size + share, "home": steps * size}
        much = too_much(sent, names, size=steps * size, **way)
        fill |= {"much": much, "most": said(1.05 * needed)}
        raise _TEXTS.wrong("too many bytes", **fill)


def failed(case: Case, wrong: Wrong) -> str:
    """The hint for an answer that mixes devices."""
    if mixed(wrong.error):
        wrong.hint = why_mixed(str(wrong.error))
    elif "assign a gradient" in str(wrong.error):
        wrong.hint = _TEXTS.hint("mean stays")
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
