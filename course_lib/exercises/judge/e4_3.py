"""Exercise 4.3, decided: evaluate and save on rank 0, load on all."""

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
_DDP = "nn/parallel/distributed.py"  # the module of PyTorch's DDP


def cases(seed: int) -> Iterator[Case]:
    """Two launches, the second with a last batch that is not full."""
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
    _judge_save(seen)
    _judge_file(seen[0]["file"], seen[0]["baseline"]["state"])
    for judge_rank in (_judge_work, _judge_accuracy, _judge_state, _judge_mode):
        for rank in range(len(seen)):
            judge_rank(rank, seen)
    return str(len(seen))


def _judge_save(seen):
    savers = [rank for rank, one in enumerate(seen) if one["saves"]]
    if others := [rank for rank in savers if rank]:
        why = "all save" if 0 in savers else "another saves"
        raise _wrong("others save", listed(others), seen, why=why)
    for rank, one in enumerate(seen):
        if not one["there"]:
            raise _wrong("no file", rank, seen, why="wait" if rank else "save")


def _wrong(found, rank, seen, **fill):
    return _TEXTS.wrong(found, rank=rank, ranks=len(seen), **fill)


def _judge_file(found, expected):
    if isinstance(found, str):
        raise _TEXTS.wrong("no weights", file=found)
    names = list(found) if isinstance(found, dict) else []
    if not names or not all(torch.is_tensor(found[name]) for name in names):
        raise _TEXTS.wrong("no state dict", file=shown(found))
    if any(str(name).startswith("module.") for name in names):
        raise _TEXTS.wrong("wrapped names")
    if missing := [name for name in expected if name not in names]:
        raise _TEXTS.wrong("missing", missing=", ".join(missing))
    if gap(expected, found) > CLOSE:
        raise _TEXTS.wrong("other weights saved")


def _judge_work(rank, seen):
    one = seen[rank]
    if rank and one["passes"]:
        raise _wrong("all evaluate", rank, seen, samples=sum(one["passes"]))
    if any(one["modes"]):
        raise _wrong("training mode", rank, seen)
    if rank and not one["reads"]:
        raise _wrong("not opened", rank, seen)


def _judge_accuracy(rank, seen):
    right, count = (seen[0]["baseline"][name] for name in ("right", "count"))
    found = number_of(seen[rank]["returned"])
    if near(found, right / count, 1e-3):
        return
    # the rank, not 0, whose number was broadcast
    source = next(filter(None, seen[0]["sources"]), 0)
    if rank or source:
        why = "source" if source else "send"
    elif found is None or not 0 <= found <= 1:
        why = "count"
    elif near(found, right / count / len(seen), 1e-3):
        why = "averaged"
    else:
        why = "share" if found or not seen[0]["whole"] else "whole"
    clue = {"rank": rank, "returned": found, "why": why}
    fill = {"right": right, "count": count, "expected": right / count, "source": source}
    said = shown(seen[rank]["returned"])
    raise _wrong("accuracy", rank, seen, why=why, returned=said, clue=clue, **fill)


def _judge_state(rank, seen):
    if gap(seen[0]["baseline"]["state"], seen[rank]["after"]) > CLOSE:
        raise _wrong("other weights loaded", rank, seen)


def _judge_mode(rank, seen):
    if not seen[rank]["training"]:
        alone = any(other["training"] for other in seen)
        why = "one in eval" if alone else "all in eval"
        raise _wrong("eval mode", rank, seen, why=why)
    if not seen[rank]["trainable"]:
        raise _wrong("not trainable", rank, seen)


def failed(case: Case, wrong: Failed) -> str:
    """Say what ranks that failed, or waited in vain, have to do with the file."""
    error, kind, said = wrong.error, wrong.error.kind, str(wrong.error)
    in_ddp = any(frame.file.endswith(_DDP) for frame in error.where.get(0, ()))
    signs = {
        "inside DDP": in_ddp,
        "other lines": kind in STUCK and len(own_lines(error)) > 1,
        "half written": "PytorchStreamReader" in said or kind in _HALF,
        "not written": kind == "FileNotFoundError" and error.rank,
        "plain names": 'Missing key(s) in state_dict: "module.' in said,
        "DDP names": kind == "RuntimeError" and "module." in said,
        "send": kind == "UnboundLocalError" and error.rank,
        "plain": kind == "UnpicklingError",
    }
    if name := next(filter(signs.get, signs), None):
        wrong.hint = _TEXTS.hint(name, rank=error.rank)
    raise wrong
