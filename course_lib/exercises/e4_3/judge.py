"""Exercise 4.3, decided: evaluate together, save on rank 0, load on all."""

import math
import random
import tempfile
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import CLOSE, gap, near, own_lines
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_TEXTS = Texts("4.3")
_HALF = ("EOFError", "OSError")  # what torch.load raises for half a file, beside others
_EXACT = 1e-5  # one sample, or a mean of means, changes an accuracy by more
_DDP = "nn/parallel/distributed.py"  # the module of PyTorch's DDP
_LOST_IN_DDP = "rank 0 lost the connection in DistributedDataParallel"


def cases(seed: int) -> Iterator[Case]:
    """Yield two launches, the second with a last batch that is not full."""
    numbers = random.Random(seed)
    sizes = (2, 200), (5, 187)
    if seed:
        sizes = (3, numbers.randint(100, 250)), (4, numbers.randint(50, 99))
    images, labels = baseline.samples(1000)
    model = _trained(images[500:], labels[500:], seed)
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        for ranks, count in sizes:
            data = images[:count], labels[:count]
            yield Case({"model": model, "data": data, "folder": folder}, ranks)


def _trained(images, labels, seed):
    """A model in the middle of its training, right about most digits."""
    model = baseline.network_with_norm(seed)
    optimizer = baseline.optimizer(model)
    for batch in torch.arange(len(images)).split(50):
        optimizer.zero_grad()
        cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    return model


def judge(case: Case, seen) -> str:
    """Look at the file, the accuracy, the work and what every rank goes on with."""
    expected = seen[0]["baseline"]
    saves = [0, *(one["saves"] for one in seen[1:])]
    there = [one["there"] for one in seen]
    _TEXTS.refuse([("others save", saves, 0, 0, 0), ("no file", there, 1, 1, 1)])
    _judge_file(seen[0]["file"], expected["state"])
    _TEXTS.refuse(_work(seen, expected["count"]))
    _judge_accuracy(seen, expected)
    _TEXTS.refuse(_state(seen, expected["state"]))
    return str(len(seen))


def _judge_file(found, expected):
    is_dict = isinstance(found, dict) and found
    if not is_dict or not all(map(torch.is_tensor, found.values())):
        file = found if isinstance(found, str) else shown(found)
        raise _TEXTS.wrong("no state dict", file=file)
    if found.keys() != expected.keys():
        names = {"names": listed(found), "expected": listed(expected)}
        raise _TEXTS.wrong("other names", **names)
    if gap(expected, found) > CLOSE:
        raise _TEXTS.wrong("other weights saved")


def _work(seen, count):
    """What the ranks did beside saving: one measures, or they share the samples."""
    passed = [sum(one["passes"]) for one in seen]
    alone = not any(passed[1:])
    padded = count + len(seen) - 1  # as DistributedSampler deals; none may count twice
    opened = [1, *(one["reads"] for one in seen[1:])]
    return (
        ("all evaluate", [sum(passed)], count, 0, math.inf if alone else padded),
        ("training mode", [any(one["modes"]) for one in seen], 0, 0, 0),
        ("not opened", opened, 1, 1, math.inf),
    )


def _judge_accuracy(seen, expected):
    right, count = expected["right"], expected["count"]
    numbers = [number_of(one["returned"]) for one in seen]
    wrong = [not near(number, right / count, _EXACT) for number in numbers]
    if not any(wrong):
        return
    rank = wrong.index(True)
    fill = {"rank": rank, "ranks": len(seen), "right": right, "count": count}
    fill |= {"returned": shown(seen[rank]["returned"]), "expected": right / count}
    twice = sum(sum(one["passes"]) for one in seen) - count
    clue = {"rank": rank, "returned": numbers[rank], "twice": twice}
    apart = len(set(numbers)) > 1
    why = "send" if rank else ("add" if apart else "share")
    raise _TEXTS.wrong("accuracy", why=why, clue=clue, **fill)


def _state(seen, expected):
    """How each rank leaves the model; 1 is yes."""
    apart = [gap(expected, one["after"]) for one in seen]
    return (
        ("other weights loaded", apart, 0, 0, CLOSE),
        ("eval mode", [one["training"] for one in seen], 1, 1, 1),
        ("not trainable", [one["trainable"] for one in seen], 1, 1, 1),
    )


def _met_ddp(notes):
    """True if a call of DDP on rank 0 met another collective, which crashed a rank."""
    lost = any(note.startswith(_LOST_IN_DDP) for note in notes)
    return lost and any(note.startswith("Collective") for note in notes)


def failed(case: Case, wrong: Failed) -> str:
    """Say what ranks that failed, or waited in vain, have to do with the file."""
    error, kind, said = wrong.error, wrong.error.kind, str(wrong.error)
    in_ddp = any(frame.file.endswith(_DDP) for frame in error.where.get(0, ()))
    signs = {
        "inside DDP": in_ddp or _met_ddp(error.notes),
        "other lines": kind in STUCK and len(own_lines(error)) > 1,
        "half written": "PytorchStreamReader" in said or kind in _HALF,
        "not written": kind == "FileNotFoundError" and error.rank,
    }
    if name := next(filter(signs.get, signs), None):
        wrong.hint = _TEXTS.hint(name, rank=error.rank)
    raise wrong
