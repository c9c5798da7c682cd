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
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed
from course_lib.text import size as said

_TEXTS = Texts("3.1")
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
    travelled = ""
    for number, (step, right) in enumerate(zip(rank["steps"], case.expected)):
        step_where = where + " (second step)" * number
        _judge_model(step, names[0])
        _judge_gradients(step, right, where=step_where, again=bool(number))
        _judge_loss(step, right, where=step_where)
        if batch >= _COSTLY:
            refuse_other_work(rank, step["flops"], shares(batch, len(names)))
            _judge_bytes(step["sent"], names, case=case, where=where)
            travelled = f" ({said(sum(step['sent'].values()))} travelled)"
    return where + travelled


def _judge_model(step, first):
    if step["place"] != first:
        raise _TEXTS.wrong("moved", place=step["place"], first=first)
    if step["moved"]:
        raise _TEXTS.wrong("stepped", parameter=shown(step["moved"][0]))
    if without := step["without"]:
        clue = {"without": len(without)}
        parameter = shown(without[0])
        raise _TEXTS.wrong("no gradient", parameter=parameter, first=first, clue=clue)


def _judge_gradients(step, right, *, where, again):
    found, whole = step["gradients"], right["whole"]
    off = gap(found, whole)
    if off <= _CLOSE:
        return
    differences, why = apart(found, whole), "old" if again else None
    clue = {"apart": differences, "second": again}
    fill = {"where": where, "off": off, "most": _CLOSE}
    wrong = _TEXTS.wrong("gradients", why=why, clue=clue, **fill)
    if differences and not again:
        of = {"off": off / largest(whole), "noun": "mean losses", "of": "chunks"}
        wrong.hint = weighed(found, right["each"], right["shares"], **of)
        if wrong.hint.startswith("No sum"):
            wrong.hint += " " + _TEXTS.hint("own chunk")
    raise wrong


def _judge_loss(step, right, *, where):
    found, losses = number_of(step["returned"]), right["losses"]
    mean = sum(share * loss for share, loss in zip(right["shares"], losses))
    if near(found, mean, 1e-5):
        return
    none = found is None
    raise _TEXTS.wrong(
        "loss",
        why="no loss" if none else "not weighted",
        where=where,
        returned=shown(step["returned"]) if none else f"{found:.4f}",
        mean=mean,
        losses=", ".join(f"{loss:.4f}" for loss in losses),
        clue={"loss": found, "off": None if none else found - mean},
    )


def shares(count: int, parts: int) -> list[int]:
    """How many rows each part has that `torch.chunk` makes; 0 where none is left."""
    sizes = [len(part) for part in torch.arange(count).chunk(parts)]
    return sizes + [0] * (parts - len(sizes))


def refuse_other_work(rank: dict, flops: dict, right: list[int]) -> None:
    """Refuse a device that is idle, or does more than its share.

    `flops` are those by device, `right` tells for how many samples each is to compute.
    """
    names, one = rank["devices"], rank["baseline"]["flops"]
    done = {name: flops.get(name, 0) / one for name in names}
    idle = [name for name in names if done[name] < min(right) / 2]
    busiest, most = max(names, key=done.get), max(right)
    if len(idle) == len(names) - 1:
        raise _TEXTS.wrong("one works", busiest=busiest, idle=listed(idle))
    if idle:
        elsewhere = ", ".join(sorted(set(flops) - set(names)))
        found = "idle, others work" if elsewhere else "idle"
        fill = {"count": len(names), "elsewhere": elsewhere}
        raise _TEXTS.wrong(found, idle=listed(idle), **fill)
    if done[busiest] > 1.4 * most:
        fill = {"samples": done[busiest], "most": most}
        raise _TEXTS.wrong("more work", busiest=busiest, **fill)


def _judge_bytes(sent, names, *, case, where):
    """Refuse more or fewer bytes than are needed, about."""
    batch, parts = len(case.given["batches"][0][1]), len(names)
    size, each = baseline.size(case.given["model"]), shares(batch, parts)
    needed = 2 * (parts - 1) * size + (batch - each[0]) * SAMPLE
    least, most = 0.98 * needed, 1.02 * needed + _LOSSES * batch + 256
    found = sum(sent.values())
    fill = {"where": where, "sent": said(found), "most": said(most)}
    if found < least:
        raise _TEXTS.wrong("too few bytes", least=said(needed), **fill)
    if found > most:
        out = size + max(each) * SAMPLE
        much = too_much(sent, names, out=out, home=size, size=size)
        clue = links(sent, names)
        raise _TEXTS.wrong("too many bytes", much=much, clue=clue, **fill)


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
    enough = needed.get(worst, 0)
    extra = sent[worst] - enough
    if "cpu" in (source, target):
        why = "through the CPU"
    elif not enough:
        why = "other link"
    elif abs(extra - enough) < 0.05 * enough:
        why = "twice"
    else:
        why = "once more" if abs(extra - size) < 0.05 * size else "more"
    return _TEXTS.hint(
        why,
        source=source,
        target=target,
        sent=said(sent[worst]),
        needed=said(enough),
        first=names[0],
        what="gradients" if target == names[0] else "weights and a chunk",
    )


def failed(case: Case, wrong: Wrong) -> str:
    """The hint for an answer that raised, by the devices and samples of this case."""
    batch, count = len(case.given["batches"][0][1]), case.given["devices"]
    each, text = shares(batch, count), str(wrong.error)
    place = "IndexError" in text or "StopIteration" in text
    fill = {"batch": batch, "count": count, "shares": listed(each)}
    if mixed(wrong.error):
        wrong.hint = why_mixed(text)
    elif 0 in each and (place or "NoneType" in text):
        chunks = count - each.count(0)
        wrong.hint = _TEXTS.hint("too few chunks", chunks=chunks, **fill)
    elif place:
        wrong.hint = _TEXTS.hint("split", **fill)
    raise wrong


def why_mixed(text: str) -> str:
    """The hint for an operator that found its tensors on two devices."""
    return _TEXTS.hint("added apart" if _ADDED.search(text) else "apart")


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
