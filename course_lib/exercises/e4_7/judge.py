"""Exercise 4.7, decided: an evaluation, sharded and exact."""

import math
import random
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Failed
from course_lib.exercises.compare import CLOSE, near
from course_lib.exercises.e4_7.metrics import measured, otherwise
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import many

_TEXTS = Texts("4.7")
_NAMES = ("loss", "accuracy", "recall")
_EXACT = 1e-5  # of a share; one sample or a mean of means changes it by more
_BYTES = 1_000
_MARGIN = 1e-3  # of two logits: on every processor the same digit is the largest
_DDP = "nn/parallel/distributed.py"  # the module of PyTorch's DDP

# other ways to a number, in the order in which they are tried; each has a hint
_WAYS = (
    "percent",
    "sum",
    "micro",
    "all digits",
    "predicted digits",
    "precision",
    "twice",
    "means",
    "summed means",
)


def cases(seed: int) -> Iterator[Case]:
    """Yield many samples, a few of which some digits are missing, fewer than ranks."""
    numbers = random.Random(seed)
    images, labels = baseline.samples(1437)
    model = _trained(images[-300:], labels[-300:], seed)
    with torch.no_grad():
        logits = model.eval()(images)
    model.train()
    best = logits.topk(2).values
    clear = (best[:, 0] - best[:, 1] > _MARGIN).nonzero().flatten().tolist()
    some, more = (3, 5) if seed % 2 == 0 else (4, 3)
    # as many batches on both ranks: costs show before unequal numbers of calls stop a
    # run. Two passes of a share are not one of all samples: rank 1 has one less
    count = 2 * (64 * numbers.randint(9, 10) + numbers.choice((12, 18, 28))) - 1
    few = some * numbers.randint(3, 4) + some - 1
    chosen = (
        (2, numbers.sample(clear, count)),
        (some, _without_some(logits, labels, few, (clear, numbers))),
        (more, numbers.sample(clear, more - 2)),
    )
    batch = images[:20], labels[:20]
    for ranks, samples in chosen:
        data = images[samples], labels[samples]
        given = {"model": model, "data": data, "batch": batch}
        yield Case(given, ranks, expected=(logits[samples], labels[samples]))


def _trained(images, labels, seed):
    """A model in the middle of its training, which still takes digits for others."""
    with baseline.seeded(seed):
        model = baseline.unseeded(nn.BatchNorm1d(32), nn.Dropout(0.25))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(12):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()
    optimizer.zero_grad()
    return model


def _without_some(logits, labels, count, drawn):
    """Indices of samples that lack some digits; one is taken for such a digit."""
    clear, numbers = drawn
    predicted, labels = logits.argmax(1).tolist(), labels.tolist()
    first = numbers.choice([i for i in clear if predicted[i] != labels[i]])
    there = {*range(10)} - {predicted[first], labels[first]}
    missing = {predicted[first], *numbers.sample(sorted(there), 2)}
    rest = [i for i in clear if labels[i] not in missing and i != first]
    return [first, *numbers.sample(rest, count - 1)]


def judge(case: Case, seen) -> str:
    """Look at how samples passed, at the numbers, what is left behind, what travels."""
    count, ranks = len(case.given["data"][1]), case.world_size
    passed = [one["passed"] for one in seen]
    _judge_passes(passed, count)
    training, graph = ([one[name] for one in seen] for name in ("training", "graph"))
    _TEXTS.refuse([("training mode", training, 0, 0, 0), ("graph", graph, 0, 0, 0)])
    found = [_numbers(rank, one["returned"], ranks) for rank, one in enumerate(seen)]
    own = [one["own statistics"] for one in seen]
    _judge_statistics(own)
    _judge_numbers(case, found, sum(passed))
    _judge_left([one["left"] for one in seen])
    _TEXTS.refuse([("seeded", [one["seeded"] for one in seen], 0, 0, 0)])
    buffers = sum(buffer.nbytes for buffer in case.given["model"].buffers())
    most, sent = _BYTES + buffers, [one["bytes"] for one in seen]
    _TEXTS.refuse([("bytes", sent, most, 0, most)], buffers=buffers, count=count)
    return f"{many(count, 'sample')} on {ranks} ranks"


def _judge_passes(passed, count):
    """Refuse a rank through which more samples pass than its share."""
    most = math.ceil(count / len(passed))
    for rank, found in enumerate(passed):
        if found > most:
            share, even = found % count == 0, sum(passed) == count
            why = "share" if share else "even" if even else "once"
            fill = {"rank": rank, "ranks": len(passed), "all": sum(passed)}
            fill |= {"found": found, "right": most, "count": count}
            raise _TEXTS.wrong("too many", why=why, **fill)


def _judge_statistics(own):
    """Refuse other running statistics than rank 0 had before."""
    if any(own):
        fill = {"rank": own.index(True), "ranks": len(own)}
        why = "replaced" if own[0] else "not sent"
        raise _TEXTS.wrong("own statistics", why=why, clue={"own": own}, **fill)


def _numbers(rank, returned, ranks):
    """The three numbers that a rank returned, by name."""
    where = {"rank": rank, "ranks": ranks, "returned": shown(returned)}
    if not isinstance(returned, dict):
        why = "send" if rank else "dict"
        raise _TEXTS.wrong("no dict", why=why, **where)
    for name in _NAMES:
        if name not in returned:
            raise _TEXTS.wrong("missing", name=name, **where)
        if torch.is_tensor(returned[name]):
            raise _TEXTS.wrong("tensor", name=name, **where)
    return {name: returned[name] for name in _NAMES}


def _judge_numbers(case, found, passed):
    """Compare each number on each rank; what differs tells the mistake."""
    logits, labels = case.expected
    right, ranks = measured(logits, labels), case.world_size
    for name in _NAMES:
        numbers = [number_of(one[name]) for one in found]
        close = CLOSE if name == "loss" else _EXACT
        wrong = [not near(number, right[name], close) for number in numbers]
        if any(wrong):
            rank = wrong.index(True)
            number = found[rank][name]
            fill = {"rank": rank, "ranks": ranks, "name": name, "count": len(labels)}
            fill |= {"returned": shown(number), "right": right[name]}
            fill["passed"] = passed
            ways = otherwise(logits, labels, ranks)
            others = [(way, one[name]) for way, one in ways if name in one]
            why = (
                _why_no_number(number)
                or ("left out" if passed < len(labels) else "")
                or _why_apart(rank, numbers, close)
                or _why_other(numbers[rank], others, close)
                or name
            )
            clue = {"name": name, "numbers": numbers}
            raise _TEXTS.wrong("number", why=why, clue=clue, **fill)


def _why_no_number(found):
    """The name of the hint for what is no finite number; "" for one."""
    if number_of(found) is not None:
        return ""
    return "nan" if isinstance(found, float) and math.isnan(found) else "no number"


def _why_apart(rank, numbers, close):
    """The name of the hint for ranks that returned different numbers; "" for one."""
    if all(near(one, numbers[rank], close) for one in numbers):
        return ""
    return "send" if rank else "add"


def _why_other(number, others, close):
    """The name of the hint for a number that another way gives; "" for none."""
    same = {way for way, other in others if near(number, other, close)}
    return next((way for way in _WAYS if way in same), "")


def _judge_left(left):
    """Refuse what an evaluation changed, in order; 1 is yes."""
    modes, frozen, weights, gradients, statistics = (
        [one[name] for one in left]
        for name in ("eval mode", "frozen", "weights", "gradients", "statistics")
    )
    _TEXTS.refuse(
        [
            ("eval mode", modes, 0, 0, 0),
            ("frozen", frozen, 0, 0, 0),
            ("weights", weights, 0, 0, 0),
            ("gradients", gradients, 0, 0, 0),
            ("statistics", statistics, 0, 0, 0),
        ]
    )


def failed(case: Case, wrong: Failed) -> str:
    """Say what unequal shares, or none, have to do with a launch that failed."""
    error, count, ranks = wrong.error, len(case.given["data"][1]), case.world_size
    apart = error.kind in ("stalled", "lost") or any(
        note.startswith("Collective") for note in error.notes
    )
    signs = {
        "one sample": "more than 1 value per channel when training" in str(error),
        "inside DDP": apart and _in_ddp(error),
        "loop": apart,
        "empty": not wrong.hint and count < ranks,
    }
    if name := next(filter(signs.get, signs), None):
        wrong.hint = _TEXTS.hint(name, count=count, ranks=ranks)
    raise wrong


def _in_ddp(error):
    """True if a rank was in a call of the DDP model when the ranks were stopped."""
    stacks = [frame for frames in error.where.values() for frame in frames]
    named = any("DistributedDataParallel" in note for note in error.notes)
    return named or any(frame.file.endswith(_DDP) for frame in stacks)
