"""Exercise 3.1, decided: one data-parallel step from `.to`, `chunk` and `cat`."""

import copy
import random
import re
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.compare import apart, gap, largest, near
from course_lib.exercises.device_runs import mixed
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.judge.e2_2 import gradient, weighed
from course_lib.exercises.observe.e3_1 import observe
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed
from course_lib.text import size as said

# devices and samples; the third has fewer chunks than devices
_CASES = ((4, 400), (4, 10), (4, 9), (3, 100))
_CLOSE = 1e-6  # gradients here are about 0.01 to 0.1
_COSTLY = 100  # samples from which on it counts what travels, and who computes
SAMPLE = 4 * 64 + 8  # bytes of an image and its label
# what PyTorch says where tensors of two devices are added
_ADDED = re.compile(r"wrapper_[A-Za-z]+_(add_?|_?cat|_?stack)\)")
_LOSSES = 8  # bytes: a loss for each sample may come, and its gradient go


def cases(seed: int) -> Iterator[Case]:
    """A large batch, one whose chunks differ, one with too few of them, other devices.

    Expected are, for two steps, the gradients of the chunks and the losses.
    """
    for count, batch in _CASES if not seed else _drawn(random.Random(seed)):
        model = baseline.network(seed)
        images, labels = baseline.samples(100 * seed + 2 * batch)
        cut = (part[100 * seed :].split(batch) for part in (images, labels))
        given = {"model": model, "batches": list(zip(*cut)), "devices": count}
        yield Case(given, expected=_right(model, given["batches"], count))


def _drawn(numbers):
    yield numbers.randint(4, 6), numbers.randint(350, 420)
    yield numbers.choice(((4, 11), (5, 13), (3, 8), (6, 16)))
    yield numbers.choice(((4, 5), (5, 6), (5, 11), (6, 13)))
    yield numbers.choice((3, 5)), numbers.randint(_COSTLY, 130)


def _right(model, batches, count):
    """For each step: the gradient, those of the chunks, their shares and losses."""
    model, steps = copy.deepcopy(model), []
    for images, labels in batches:
        pairs = list(zip(images.chunk(count), labels.chunk(count)))
        losses = [cross_entropy(model(x), y) for x, y in pairs]
        step = {"whole": gradient(model, cross_entropy(model(images), labels))}
        step["shares"] = [len(y) / len(labels) for _, y in pairs]
        step["losses"] = [loss.item() for loss in losses]
        step["each"] = [gradient(model, loss) for loss in losses]
        steps.append(step)
        with torch.no_grad():
            for parameter, grad in zip(model.parameters(), step["whole"].values()):
                parameter -= baseline.RATE * grad
    return steps


def judge(case: Case, seen) -> str:
    """Compare gradients and loss of each step, then who computed and what moved."""
    [rank] = seen
    batch, names = len(case.given["batches"][0][1]), rank["devices"]
    where = f"{batch} samples on {len(names)} devices"
    travelled = 0
    for number, (step, right) in enumerate(zip(rank["steps"], case.expected)):
        again = " (second step)" * number
        _refuse_changed(step, names[0])
        _judge_gradients(step, right, where=where + again, again=number)
        _judge_loss(step, right, where=where + again)
        if batch >= _COSTLY:
            samples = {
                d: f / rank["baseline"]["flops"] for d, f in step["flops"].items()
            }
            refuse_other_work(samples, names, shares(batch, len(names)))
            travelled = _judge_bytes(step["sent"], names, batch=batch, where=where)
    return f"{where}" + (f" ({said(travelled)} travelled)" if travelled else "")


def _refuse_changed(step, first):
    if step["place"] != first:
        raise Wrong(
            f"the model is on {step['place']} after the step, expected on {first}",
            "model.to(device) moves the model itself, not a copy. Copy it first:"
            " copy.deepcopy(model).to(device).",
        )
    if step["moved"]:
        raise Wrong(
            f"the step changed {shown(step['moved'][0])} itself, expected to find its"
            " gradient",
            "Leave the weights alone: the optimizer of the training takes the step,"
            " with the gradients that you leave in model.",
        )
    if step["without"]:
        raise Wrong(
            f"{shown(step['without'][0])} of the model on {first} has no gradient after"
            " the step",
            "The gradients are in the replicas, or nowhere. Bring them home: add up"
            " .grad.to(devices[0]) of all replicas in the parameters of model.",
            clue={"without": len(step["without"])},
        )


def _judge_gradients(step, right, *, where, again):
    found, whole = step["gradients"], right["whole"]
    off = gap(found, whole)
    if off <= _CLOSE:
        return
    hint = "Let backward fill `.grad`: it has the shape of its parameter."
    differences = apart(found, whole)
    if again:
        hint = (
            "The first step was right, so these replicas are old: the weights have"
            " changed since. Make new replicas in every step."
        )
    elif differences:
        hint = weighed(
            found,
            right["each"],
            right["shares"],
            off=off / largest(whole),
            noun="mean losses",
            of="chunks",
        )
    if hint.startswith("No sum"):
        hint += (
            " Each replica needs the weights of model as they are now, and its own"
            " chunk: images with the labels that belong to them."
        )
    raise Wrong(
        f"{where}: the gradients differ from those of the full batch by up to"
        f" {off:.2g}, expected at most {_CLOSE:g}",
        hint,
        clue={"apart": differences, "second": bool(again)},
    )


def _judge_loss(step, right, *, where):
    found, losses = number_of(step["returned"]), right["losses"]
    mean = sum(share * loss for share, loss in zip(right["shares"], losses))
    if near(found, mean, 1e-5):
        return
    hint = "Return the mean loss over all samples, as a number or a tensor of one."
    if found is not None:
        means = ", ".join(f"{loss:.4f}" for loss in losses)
        hint = (
            f"The gradients are right; the chunks' mean losses are {means}. Return the"
            " mean over all samples: a chunk counts by its samples."
        )
    told = shown(step["returned"]) if found is None else f"{found:.4f}"
    raise Wrong(
        f"{where}: returned {told}, expected the mean loss {mean:.4f}",
        hint,
        clue={"loss": found, "off": None if found is None else found - mean},
    )


def shares(count: int, parts: int) -> list[int]:
    """How many rows each part has that `torch.chunk` makes; 0 where none is left."""
    sizes = [len(part) for part in torch.arange(count).chunk(parts)]
    return sizes + [0] * (parts - len(sizes))


def refuse_other_work(samples: dict, names: list[str], right: list[int]) -> None:
    """Refuse a device that is idle, or does more than its share.

    `samples` tells for how many samples each device computed, `right` for how many it
    is to.
    """
    done = {name: samples.get(name, 0) for name in names}
    idle = [name for name in names if done[name] < min(right) / 2]
    elsewhere = sorted(set(samples) - set(names))
    if len(idle) == len(names) - 1:
        raise Wrong(
            f"{(set(names) - set(idle)).pop()} computes everything;"
            f" {listed(idle)} nothing",
            "The numbers are right, but one device does all the work. Each device needs"
            " a copy of the model and its own chunk of the batch.",
        )
    if idle:
        raise Wrong(
            f"nothing is computed on {listed(idle)}, expected work on all"
            f" {len(names)} devices"
            + (f"; found some on {listed(elsewhere)}" if elsewhere else ""),
            "Cut the batch into as many chunks as there are devices: len(devices). Each"
            " device computes its own, device 0 too.",
        )
    worst = max(names, key=done.get)
    if done[worst] > 1.4 * max(right):
        raise Wrong(
            f"{worst} computed as much as {done[worst]:,.0f} samples need, expected"
            f" {max(right):,}",
            "A device computes its own chunk only, and only once. Which tensor does the"
            " replica get?",
        )


def _judge_bytes(sent, names, *, batch, where):
    """The bytes that travelled, if they are about what is needed."""
    first, *others = names
    size = baseline.size(baseline.network())
    needed = 2 * len(others) * size + (batch - shares(batch, len(names))[0]) * SAMPLE
    most = 1.02 * needed + _LOSSES * batch + 256
    found = sum(sent.values())
    if found < 0.98 * needed:
        raise Wrong(
            f"{where}: {said(found)} travelled in one step, expected at least"
            f" {said(needed)}",
            "Weights and chunks go out and gradients come home, all of them in 32 bits."
            " What stays where it is, or travels with fewer bits?",
        )
    if found <= most:
        return found
    share = max(shares(batch, len(names))) * SAMPLE
    raise Wrong(
        f"{where}: {said(found)} travelled in one step, expected at most {said(most)}",
        too_much(sent, names, out=size + share, home=size, size=size)
        + " Weights and chunks go out once, gradients come home once.",
        clue=links(sent, names),
    )


def links(sent: dict, names: list[str]) -> dict:
    """The bytes that go out from the first device, come home, and go elsewhere."""
    first, *others = names
    between = [f"{one} > {other}" for one in others for other in others]
    return {
        "out": [sent.get(f"{first} > {name}", 0) for name in others],
        "home": [sent.get(f"{name} > {first}", 0) for name in others],
        "between": sum(sent.get(link, 0) for link in between),
        "cpu": sum(count for link, count in sent.items() if "cpu" in link),
    }


def too_much(sent: dict, names: list[str], *, out: float, home: float, size) -> str:
    """The hint for too many bytes: the link with the most beyond what is needed.

    Needed are the bytes that go `out` to a device, and those that come `home`; the
    weights, as the gradients, have `size`.
    """
    needed = {f"{names[0]} > {name}": out for name in names[1:]}
    needed |= {f"{name} > {names[0]}": home for name in names[1:]}
    worst = max(sent, key=lambda link: sent[link] - needed.get(link, 0))
    source, target = worst.split(" > ")
    found = f"{source} sends {said(sent[worst])} to {target}"
    if "cpu" in (source, target):
        return (
            f"{found}: something goes through the CPU, by .cpu() or a copy without a"
            " device. Straight to the device it travels once."
        )
    if worst not in needed:
        return f"{found}, but only {names[0]} has to send to it, and to hear from it."
    what = "gradients" if target == names[0] else "weights and a chunk"
    extra = sent[worst] - needed[worst]
    guess = ""
    if abs(extra - needed[worst]) < 0.05 * needed[worst]:
        guess = " Twice as much: does something travel twice, or in 64 bits?"
    elif abs(extra - size) < 0.05 * size:
        guess = " All weights or gradients travel once more than they have to."
    return f"{found}, where {what} have {said(needed[worst])}.{guess}"


def failed(case: Case, wrong: Wrong) -> str:
    """The hint for an answer that raised, by the devices and samples of this case."""
    batch, count = len(case.given["batches"][0][1]), case.given["devices"]
    chunks = len(torch.arange(batch).chunk(count))
    place = "IndexError" in str(wrong.error) or "StopIteration" in str(wrong.error)
    if mixed(wrong.error):
        wrong.hint = why_mixed(str(wrong.error))
    elif chunks < count and (place or "NoneType" in str(wrong.error)):
        wrong.hint = (
            f"{batch} samples on {count} devices give only {chunks} chunks, so one"
            " replica computes nothing and its gradients are None. Leave it out."
        )
    elif place:
        wrong.hint = (
            f"Here {batch} samples give {listed(shares(batch, count))} to {count}"
            " devices, which is len(devices): chunk(n) makes n chunks, split(n) makes"
            " chunks of n samples."
        )
    raise wrong


def why_mixed(text: str) -> str:
    """The hint for an operator that found its tensors on two devices."""
    if _ADDED.search(text):
        return (
            "You add tensors of different devices. Bring each to device 0 first,"
            " .to(devices[0]): the losses and the gradients."
        )
    return (
        "Weights, images and labels of one chunk belong on one device. And"
        " model.to(device) moves the model itself: copy it first."
    )


def draw(case: Case, seen):
    """What travelled in the first step."""
    return draw_transfers(seen[0]["steps"][0]["trace"])


def draw_transfers(trace):
    """The bytes from device to device; None if nothing travelled."""
    from course_lib.plots.transfers import plot_transfers

    return plot_transfers(trace) if trace.transfers else None


EXERCISE = Exercise(
    "3.1",
    observe,
    cases,
    judge,
    proof="in two steps each the gradients of the full batch for {}",
    draw=draw,
    failed=failed,
)
