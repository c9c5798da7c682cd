"""Exercise 4.3: evaluate and save on rank 0, load on all, without a deadlock."""

import contextlib
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset

from course_lib import reference
from course_lib.attempt import Attempt, Wrong
from course_lib.evidence import (
    CLOSE,
    gap,
    group,
    near,
    number_of,
    own_lines,
    state_of,
)
from course_lib.results import short

_SLOW = 0.3  # seconds that a save takes longer, so that nobody is lucky
_COUNT = 200

_SEND = (
    "Only rank 0 knows the number. Send it to the others: dist.broadcast of a tensor"
    " from rank 0, on the device of the model."
)
_PLAIN = (
    "Save a state dict, not the model: a class that is pickled cannot be loaded where"
    " its code has moved."
)


def check_save(attempt: Attempt) -> str:
    """Look at the file, the accuracy and the loaded weights of every rank."""
    data = reference.samples(_COUNT)
    for ranks in (2, 3):
        with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
            results = attempt(
                _save, data, folder, world_size=ranks, why=_Why(Path(folder))
            )
        for judge in (_judge_save, _judge_file, _judge_work, _judge_rank):
            for rank in range(ranks):
                judge(rank, results)
    return "rank 0 evaluated and saved, 2 and 3 ranks loaded, and nobody was stuck"


def _save(rank, world_size, answer, /, *given):
    (images, labels), folder = given
    data, path = TensorDataset(images, labels), Path(folder) / "weights.pt"
    with group(rank, world_size) as device:
        model = DDP(reference.network_with_norm(seed=rank).to(device))
        _step(model, images[rank::world_size], labels[rank::world_size])
        before = state_of(model.module.state_dict())
        modes = []  # of BatchNorm, for each forward

        def forward(module, _):
            if module is model:
                _forward(folder, rank).touch()
            if module is model.module:
                modes.append(module.training)

        # for all modules: a hook of its own would be pickled with the model
        handle = register_module_forward_pre_hook(forward)
        with _slow_saves() as saves:
            accuracy = answer(rank, model, data, str(path))
        handle.remove()
        return {
            "accuracy": number_of(accuracy),
            "said": short(accuracy),
            "there": path.exists(),  # at once, before rank 0 goes on
            "file": None if rank else _content(path),
            "saves": len(saves),
            "modes": modes,
            "before": before,
            "after": state_of(model.module.state_dict()),
        }


def _step(model, images, labels):
    """A backward on other data per rank: now the running statistics differ, too."""
    device = next(model.parameters()).device
    cross_entropy(model(images.to(device)), labels.to(device)).backward()


@contextlib.contextmanager
def _slow_saves():
    save, saves = torch.save, []

    def slow(*args, **kwargs):
        saves.append(args)
        time.sleep(_SLOW)  # as a drive on the network may
        return save(*args, **kwargs)

    torch.save = slow
    try:
        yield saves
    finally:
        torch.save = save  # what the rank returns is saved, too


def _forward(folder, rank):
    return Path(folder) / f"forward-{rank}"


def _content(path):
    try:
        return state_of(torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        return "nothing"
    except Exception:
        return "no plain state dict"


def _judge_save(rank, results):
    ranks, result = len(results), results[rank]
    if rank and result["saves"]:
        raise Wrong(
            f"rank {rank} of {ranks} called torch.save, expected rank 0 alone",
            "All ranks write the same file at the same time, and one may read what"
            " another has half written. Ask for rank 0 before you save.",
        )
    if not result["there"]:
        raise Wrong(
            f"rank {rank} of {ranks} returned when the file was not there yet",
            "Saving takes time. Let all ranks wait until rank 0 has saved:"
            " dist.barrier()."
            if rank
            else "Rank 0 must save, under exactly this name:"
            " torch.save(model.module.state_dict(), path).",
        )


def _judge_file(rank, results):
    found, expected = results[rank]["file"], results[0]["before"]
    if rank:
        return
    if isinstance(found, str):
        checkpoint = "Save the state dict alone: a plain model must be able to load it."
        raise Wrong(
            f"the file holds {found}", checkpoint if found.startswith("{") else _PLAIN
        )
    if any(name.startswith("module.") for name in found):
        raise Wrong(
            "the names in the file begin with `module.`, expected `1.weight` and so on",
            "That is the state dict of the DDP wrapper. A plain model cannot load it:"
            " save model.module.state_dict().",
        )
    missing = [name for name in expected if name not in found]
    if missing:
        raise Wrong(
            f"the file lacks {', '.join(missing)}",
            "Running statistics are buffers, not parameters:"
            " model.module.state_dict() has both.",
        )
    if not gap(expected, found) <= CLOSE:
        raise Wrong(
            "the file differs from the weights and running statistics of rank 0",
            "The evaluation changed the model: in training mode BatchNorm goes on"
            " learning its statistics. Call eval() first.",
        )


def _judge_work(rank, results):
    modes = results[rank]["modes"]
    if rank and modes:
        raise Wrong(
            f"rank {rank} of {len(results)} called the model {len(modes)} times,"
            " expected 0",
            "Every rank evaluates, and all but one do it for nothing. Evaluate on rank"
            " 0 and send the number to the others.",
        )
    if any(modes):
        raise Wrong(
            f"rank {rank} of {len(results)} evaluated in training mode",
            "BatchNorm took its statistics from the batch. Call eval() before you"
            " evaluate.",
        )


def _judge_rank(rank, results):
    ranks, result = len(results), results[rank]
    good, found = _accuracy(results[0]["before"]), result["accuracy"]
    if not near(found, good, 1e-3):
        raise Wrong(
            f"rank {rank} of {ranks} returned {result['said']},"
            f" expected an accuracy of {good:.4f}",
            _why_accuracy(found, good, where=(rank, ranks)),
        )
    if not gap(results[0]["before"], result["after"]) <= CLOSE:
        raise Wrong(
            f"rank {rank} of {ranks} goes on with other weights or running statistics"
            " than those in the file",
            "Every rank loads the file into model.module, after the barrier.",
        )


def _why_accuracy(found, good, *, where):
    rank, ranks = where
    if rank and not found:
        return _SEND
    if found is None:
        return "All ranks return the share of right answers, a number from 0 to 1."
    if found == 0:
        return "A tensor of whole numbers cuts a share to 0. Make it of floats."
    if near(found, good / ranks, 1e-3):
        return (
            "An average with the zeros of the other ranks is too small. Take the number"
            " of rank 0 as it is: dist.broadcast."
        )
    if near(found, 100 * good, 0.1) or near(found, _COUNT * good, 0.1):
        return "Return the share of right answers, from 0 to 1: right / all."
    return "Count the right answers over all samples of `data`, then divide by all."


@torch.no_grad()
def _accuracy(weights):
    """The share of right answers of rank 0's model."""
    images, labels = reference.samples(_COUNT)
    plain = reference.network_with_norm().eval()
    plain.load_state_dict(weights)
    return (plain(images).argmax(1) == labels).float().mean().item()


class _Why:
    """The hint for ranks that failed or waited in vain."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, error):
        called = [r for r in range(3) if _forward(self.folder, r).exists()]
        if called == [0] and error.kind in ("late", "lost"):
            return (
                "Only rank 0 called the DDP model, and that call is a collective: DDP"
                " first sends BatchNorm's statistics to all ranks. Evaluate"
                " model.module."
            )
        if error.kind == "late" and len(own_lines(error)) > 1:
            return (
                "A line in which all ranks take part stands under `if rank == 0`, or"
                " the ranks come to such lines in another order."
            )
        if error.kind == "FileNotFoundError":
            return (
                f"Rank {error.rank} looks for the file before rank 0 has written it."
                " Let all wait between saving and loading: dist.barrier()."
            )
        if error.kind == "RuntimeError" and "module." in str(error):
            if 'Missing key(s) in state_dict: "module.' in str(error):
                return "The file has plain names: load it into model.module."
            return (
                "The file has the names of the DDP wrapper: save"
                " model.module.state_dict()."
            )
        if error.kind == "UnboundLocalError" and error.rank:
            return _SEND
        return _PLAIN if error.kind == "UnpicklingError" else None
