"""Exercise 3.1, decided: one data-parallel step from `.to`, `chunk` and `cat`."""

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.compare import apart, largest, near, state_of
from course_lib.exercises.e2_2.judge import gradient, weighed
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed
from course_lib.text import size as said

_TEXTS = Texts("3.1")
# devices and samples; the third has fewer chunks than devices
_CASES = ((4, 400), (4, 10), (4, 9), (3, 100))
_CLOSE = 1e-6  # gradients here are about 0.01 to 0.1
_COSTLY = 100  # samples from which on it counts what travels, and who computes
_SAMPLE = 4 * 64 + 8  # bytes of an image and its label


def cases(seed: int) -> Iterator[Case]:
    """Yield a large batch, uneven chunks, too few chunks, and other devices.

    Expected are two steps of one device.
    """
    for count, batch in _CASES if not seed else _drawn(random.Random(seed)):
        given = batches_on(count, batch, seed=seed, steps=2)
        steps, _ = trained(given)
        yield Case(given, expected=steps)


def _drawn(numbers):
    yield numbers.randint(4, 6), numbers.randint(350, 420)
    yield numbers.choice(((4, 11), (5, 13), (3, 8), (6, 16)))
    yield numbers.choice(((4, 5), (5, 6), (5, 11), (6, 13)))
    yield numbers.choice((3, 5)), numbers.randint(_COSTLY, 130)


def batches_on(devices: int, batch: int, *, seed: int, steps: int) -> dict:
    """Return what an answer is given: a network, batches, a number of devices."""
    parts = [
        part[100 * seed :] for part in baseline.samples(100 * seed + steps * batch)
    ]
    batches = list(zip(*(part.split(batch) for part in parts)))
    return {"model": baseline.network(seed), "batches": batches, "devices": devices}


def trained(given: dict, momentum=0.0) -> tuple[list[dict], dict]:
    """Return what each step and its chunks have on one device, and the end's weights.

    `shares` are those of the chunks in the batch.
    """
    model, steps = copy.deepcopy(given["model"]), []
    sgd = SGD(model.parameters(), lr=baseline.RATE, momentum=momentum)
    for images, labels in given["batches"]:
        pairs = list(zip(*(part.chunk(given["devices"]) for part in (images, labels))))
        losses = [cross_entropy(model(x), y) for x, y in pairs]
        step = {"weights": state_of(model)}
        step["shares"] = [len(y) / len(labels) for _, y in pairs]
        step["losses"] = [loss.item() for loss in losses]
        step["each"] = [gradient(model, loss) for loss in losses]
        sgd.zero_grad()
        cross_entropy(model(images), labels).backward()
        step["whole"] = state_of({n: p.grad for n, p in model.named_parameters()})
        sgd.step()
        steps.append(step)
    return steps, state_of(model)


def judge(case: Case, seen) -> str:
    """Compare gradients and loss of each step, then who computed and what moved."""
    [rank] = seen
    batch, names = len(case.given["batches"][0][1]), rank["devices"]
    where = f"{batch} samples on {len(names)} devices"
    travelled, wrong = "", partial(_TEXTS.wrong, where=where)
    for number, (step, right) in enumerate(zip(rank["steps"], case.expected)):
        step_where = f"{where} (second step)" if number else where
        _judge_gradients(step, right, first=names[0], where=step_where)
        _judge_loss(step, right, where=step_where)
        if batch >= _COSTLY:
            each, size = shares(batch, len(names)), baseline.size(case.given["model"])
            sent = judge_cost(rank, step, each, weights=(size, size), wrong=wrong)
            travelled = f" ({said(sent)} travelled)"
    return where + travelled


def _judge_gradients(step, right, *, first, where):
    found, whole = step["gradients"], right["whole"]
    if step["place"] != first:
        raise _TEXTS.wrong("moved", place=step["place"], first=first)
    if step["moved"]:
        raise _TEXTS.wrong("stepped", parameter=shown(step["moved"][0]))
    differences = apart(found, whole)
    if not differences:
        there, names = listed(found or ["no parameter"]), listed(whole)
        raise _TEXTS.wrong("no gradient", found=there, names=names, first=first)
    off = largest(differences)
    if off <= _CLOSE:
        return
    told = weighed(found, right["each"], right["shares"], of="chunks")
    fill = {"where": where, "off": off, "most": _CLOSE, "told": told}
    raise _TEXTS.wrong("gradients", clue={"apart": differences}, **fill)


def _judge_loss(step, right, *, where):
    found, losses = number_of(step["returned"]), right["losses"]
    mean = sum(share * loss for share, loss in zip(right["shares"], losses))
    if near(found, mean, 1e-5):
        return
    fill = {"returned": shown(step["returned"]), "mean": mean, "where": where}
    fill["losses"] = ", ".join(f"{loss:.4f}" for loss in losses)
    raise _TEXTS.wrong("loss", clue={"loss": found}, **fill)


def judge_cost(
    rank: dict, cost: dict, right: list[int], *, weights: tuple, wrong: Callable
) -> int:
    """Refuse a device that does not do its share, and other bytes than are needed.

    Also of 3.2, and `wrong` tells it in its words. `cost` was seen; `right` are the
    samples of each device, `weights` the bytes beside samples that go from device 0 to
    each other one, and back. Gives all bytes that travelled.
    """
    _judge_work(rank, cost["flops"], right)
    first, *others = rank["devices"]
    sent, needed = Counter(), {}
    for copied in cost["trace"].transfers:
        sent[copied.source, copied.target] += copied.bytes
    for name, count in zip(others, right[1:]):
        needed[first, name] = weights[0] + count * _SAMPLE
        needed[name, first] = weights[1]
    found, enough = sum(sent.values()), sum(needed.values())
    # a loss for each sample may come, and its gradient go
    most = 1.02 * enough + 8 * sum(right) + 256
    if found < 0.95 * enough:
        raise wrong("too few bytes", found=said(found), enough=said(enough))
    if found > most:
        counts = [sent[link] for link in needed]
        worst = max(sent, key=lambda link: sent[link] - needed.get(link, 0))
        fill = {"source": worst[0], "target": worst[1], "most": said(most)}
        fill |= {"sent": said(sent[worst]), "needed": said(needed.get(worst, 0))}
        clue = {"sent": counts, "elsewhere": found - sum(counts)}
        raise wrong("too many bytes", clue=clue, found=said(found), **fill)
    return found


def _judge_work(rank, flops, right):
    names, one = rank["devices"], rank["baseline"]["flops"]
    done = dict.fromkeys(names, 0) | {name: flops[name] / one for name in flops}
    each = [done[name] for name in names]
    if min(each) < min(right) / 2 or max(each) > 1.4 * max(right):
        told = listed(f"{name} ({count:.3g})" for name, count in done.items())
        clue = {"work": list(done.values())}
        raise _TEXTS.wrong("work", told=told, most=max(right), clue=clue)


def shares(count: int, parts: int) -> list[int]:
    """Return how many rows each part of `torch.chunk` has; 0 where none is left."""
    sizes = [len(part) for part in torch.arange(count).chunk(parts)]
    return sizes + [0] * (parts - len(sizes))


def failed(case: Case, wrong: Failed) -> str:
    """Give an answer that raised the hint for the devices and samples of this case."""
    batch, count = len(case.given["batches"][0][1]), case.given["devices"]
    each, text = shares(batch, count), str(wrong.error)
    beyond = "IndexError" in text or "StopIteration" in text
    if "same device" in text:
        wrong.hint = _TEXTS.hint("apart")
    elif beyond or (0 in each and "NoneType" in text):
        fill = {"batch": batch, "count": count, "shares": listed(each)}
        wrong.hint = _TEXTS.hint("chunks", **fill)
    raise wrong


def draw(case: Case, seen):
    """Draw what travelled in the first step."""
    return draw_transfers(seen[0]["steps"][0]["trace"])


def draw_transfers(trace):
    """Draw the bytes from device to device; None if nothing travelled."""
    from course_lib.plots.transfers import plot_transfers

    return plot_transfers(trace) if trace.transfers else None
