"""Exercise 4.3, decided: evaluate and save on rank 0, load on all."""

import random
import tempfile
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from course_lib.exercises import baseline
from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.compare import CLOSE, gap, near, own_lines
from course_lib.exercises.exercise import Case, Exercise, Wrong
from course_lib.exercises.observe.e4_3 import observe
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_HALF = ("EOFError", "OSError")  # what torch.load raises for half a file, beside others
_SEND = (
    "Only rank 0 knows the number. Send it to the others: dist.broadcast of a tensor"
    " from rank 0, on the device of the model."
)
_LARGEST = (
    "An answer is the largest output for a sample, argmax(1). Count the right ones over"
    " all samples of `data`, in all batches."
)
_PLAIN = (
    "Save a state dict, not the model: a class that is pickled cannot be loaded where"
    " its code has moved."
)
_DDP = "nn/parallel/distributed.py"  # the module of PyTorch's DDP


def cases(seed: int) -> Iterator[Case]:
    """Two launches; no pause between the halves of the file guesses both."""
    numbers = random.Random(seed)
    sizes = (2, 200, 0.5), (5, 187, 2.0)
    if seed:
        sizes = (3, numbers.randint(100, 250), 0.5), (4, numbers.randint(50, 99), 2.0)
    images, labels = baseline.samples(1000)
    model = _trained(images[500:], labels[500:], seed)
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        for ranks, count, pause in sizes:
            data = images[:count], labels[:count]
            given = {"model": model, "data": data, "folder": folder, "pause": pause}
            yield Case(given, ranks)


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
    others = [rank for rank in savers if rank]
    if others:
        raise Wrong(
            f"rank {listed(others)} of {len(seen)} called torch.save, expected rank 0"
            " alone",
            "All ranks write the same file at the same time, and one may read what"
            " another has half written. Ask for rank 0 before you save."
            if 0 in savers
            else "Here another rank saves in place of rank 0, which has measured."
            " Compare with 0: `if rank == 0`.",
        )
    for rank, one in enumerate(seen):
        if not one["there"]:
            raise Wrong(
                f"rank {rank} of {len(seen)} returned before the file was complete",
                "Saving takes time. Let all ranks wait until rank 0 has saved:"
                " dist.barrier()."
                if rank
                else "Rank 0 must save, under exactly this name:"
                " torch.save(model.module.state_dict(), path).",
            )


def _judge_file(found, expected):
    if isinstance(found, str):
        raise Wrong(f"the file holds {found}", _PLAIN)
    names = list(found) if isinstance(found, dict) else []
    if not names or not all(torch.is_tensor(found[name]) for name in names):
        raise Wrong(
            f"the file holds {shown(found)}, expected weights by their names",
            "Save the state dict alone: a plain model must be able to load it.",
        )
    if any(str(name).startswith("module.") for name in names):
        raise Wrong(
            "the names in the file begin with `module.`, expected `1.weight` and so on",
            "That is the state dict of the DDP wrapper. A plain model cannot load it:"
            " save model.module.state_dict().",
        )
    missing = [name for name in expected if name not in names]
    if missing:
        raise Wrong(
            f"the file lacks {', '.join(missing)}",
            "Running statistics are buffers, not parameters:"
            " model.module.state_dict() has both.",
        )
    if gap(expected, found) > CLOSE:
        raise Wrong(
            "the file differs from the weights and running statistics of rank 0",
            "The evaluation changed the model: in training mode BatchNorm goes on"
            " learning its statistics. Call eval() first.",
        )


def _judge_work(rank, seen):
    one, where = seen[rank], f"rank {rank} of {len(seen)}"
    if rank and one["passes"]:
        raise Wrong(
            f"{where} put {sum(one['passes'])} samples through the model, expected 0",
            "Every rank evaluates, and all but one do it for nothing. Evaluate on rank"
            " 0 and send the number to the others.",
        )
    if any(one["modes"]):
        raise Wrong(
            f"{where} evaluated in training mode",
            "BatchNorm took its statistics from the batch. Call eval() before you"
            " evaluate.",
        )
    if rank and not one["reads"]:
        raise Wrong(
            f"{where} has not opened the file",
            "Every rank loads the file into model.module, after the barrier.",
        )


def _judge_accuracy(rank, seen):
    right, count = (seen[0]["baseline"][name] for name in ("right", "count"))
    found = [number_of(one["returned"]) for one in seen]
    if near(found[rank], right / count, 1e-3):
        return
    raise Wrong(
        f"rank {rank} of {len(seen)} returned {shown(seen[rank]['returned'])},"
        f" expected an accuracy of {right / count:.4f}",
        _why_number(found[rank], right, count=count, ranks=len(seen))
        if not rank and found[0]
        else _why_none(found[rank], rank, seen),
    )


def _why_none(found, rank, seen):
    """The hint for nothing or 0, or for another number than rank 0 has."""
    source = next(filter(None, seen[0]["sources"]), 0)
    if source:
        return f"A broadcast sends the number of rank {source}. Rank 0 has it: src=0."
    if rank:
        return _SEND
    if found is None:
        return "All ranks return the share of right answers, a number from 0 to 1."
    if seen[0]["whole"]:
        return "A tensor of whole numbers cuts a share to 0. Make it of floats."
    return f"No answer was right, or none was counted. {_LARGEST}"


def _why_number(found, right, *, count, ranks):
    """The hint for a number that rank 0 should not have."""
    if near(found, right / count / ranks, 1e-3):
        return (
            "An average with the zeros of the other ranks is too small. Take the number"
            " of rank 0 as it is: dist.broadcast."
        )
    if not 0 <= found <= 1:
        return (
            f"{right} of {count} are right. Return their share, from 0 to 1: right /"
            " all."
        )
    hits = found * count
    if abs(hits - round(hits)) < 0.01:
        return (
            f"This is a share of {round(hits)} in {count}, and {right} answers are"
            f" right. {_LARGEST}"
        )
    return (
        f"No number of right answers in {count} has this share. Count the right answers"
        " over all samples of `data`, then divide by all: batches may have different"
        " sizes."
    )


def _judge_state(rank, seen):
    if gap(seen[0]["baseline"]["state"], seen[rank]["after"]) > CLOSE:
        raise Wrong(
            f"rank {rank} of {len(seen)} goes on with other weights or running"
            " statistics than those in the file",
            "Every rank loads the file into model.module, after the barrier.",
        )


def _judge_mode(rank, seen):
    one, where = seen[rank], f"rank {rank} of {len(seen)}"
    if not one["training"]:
        raise Wrong(
            f"{where} leaves the model in eval mode, expected training mode, as before",
            f"Rank {rank} stays in eval mode and its BatchNorm would go on in another"
            " way than that of others: call model.train() at the end."
            if any(other["training"] for other in seen)
            else "The training goes on after this function, and BatchNorm must learn"
            " again: call model.train() at the end.",
        )
    if not one["trainable"]:
        raise Wrong(
            f"{where} cannot go on training: gradients are switched off, or the model"
            " has other parameters than the optimizer knows",
            "Use no_grad() as a block, `with torch.no_grad():`, and load without"
            " assign=True, so that numbers are copied into the parameters.",
        )


def failed(case: Case, wrong: Failed) -> str:
    """Say what ranks that failed, or waited in vain, have to do with the file."""
    error, said = wrong.error, str(wrong.error)
    inside = any(frame.file.endswith(_DDP) for frame in error.where.get(0, ()))
    if inside:
        wrong.hint = (
            "Only rank 0 called the DDP model, and that call is a collective: DDP"
            " first sends BatchNorm's statistics to all ranks. Evaluate"
            " model.module."
        )
    elif error.kind in STUCK and len(own_lines(error)) > 1:
        wrong.hint = (
            "A line in which all ranks take part stands under `if rank == 0`, or"
            " the ranks come to such lines in another order."
        )
    elif "PytorchStreamReader" in said or error.kind in _HALF:
        wrong.hint = (
            f"The file is there, but rank {error.rank} reads it before rank 0 has"
            " written all of it. Neither its name nor a pause says that it is"
            " complete: let all wait in dist.barrier()."
        )
    elif error.kind == "FileNotFoundError" and error.rank:
        wrong.hint = (
            f"Rank {error.rank} looks for the file before rank 0 has written it."
            " Let all wait between saving and loading: dist.barrier()."
        )
    elif 'Missing key(s) in state_dict: "module.' in said:
        wrong.hint = "The file has plain names: load it into model.module."
    elif error.kind == "RuntimeError" and "module." in said:
        wrong.hint = (
            "The file has the names of the DDP wrapper: save model.module.state_dict()."
        )
    elif error.kind == "UnboundLocalError" and error.rank:
        wrong.hint = _SEND
    elif error.kind == "UnpicklingError":
        wrong.hint = _PLAIN
    raise wrong


EXERCISE = Exercise(
    "4.3",
    observe,
    cases,
    judge,
    proof="rank 0 evaluated and saved, {} ranks loaded, and nobody was stuck",
    failed=failed,
)
