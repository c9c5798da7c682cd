"""Exercise 4.3: evaluate and save on rank 0, load on all, without a deadlock."""

import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib import reference
from course_lib.attempt import (
    CLOSE,
    Attempt,
    Watched,
    Wrong,
    gap,
    group,
    number_of,
    state_of,
)

_SLOW = 0.3  # seconds that a save takes longer, so that nobody is lucky
_COUNT = 200


def check_save(attempt: Attempt) -> str:
    """Look at the file, the accuracy and the loaded weights of every rank."""
    data = reference.samples(_COUNT)
    for ranks in (2, 3):
        with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
            results = attempt(
                _save, data, folder, world_size=ranks, why=_Why(Path(folder))
            )
        for rank in range(ranks):
            _judge_file(rank, results)
        for rank in range(ranks):
            _judge_rank(rank, results)
    return "rank 0 evaluated and saved, 2 and 3 ranks loaded, and nobody was stuck"


def _save(rank, world_size, answer, /, *given):
    (images, labels), folder = given
    data, path = Watched(images, labels), Path(folder) / "weights.pt"
    with group(rank, world_size) as device:
        model = DDP(reference.network_with_norm(seed=rank).to(device))
        _step(model, images[rank::world_size], labels[rank::world_size])
        before = state_of(model.module.state_dict())
        model.register_forward_pre_hook(lambda *_: _forward(folder, rank).touch())
        saves = _slow_saves()
        accuracy = answer(rank, model, data, str(path))
        return {
            "accuracy": number_of(accuracy),
            "there": path.exists(),  # at once, before rank 0 goes on
            "file": _content(path),
            "saves": len(saves),
            "read": len(data.read),
            "before": before,
            "after": state_of(model.module.state_dict()),
        }


def _step(model, images, labels):
    """A backward on other data per rank: now the running statistics differ, too."""
    device = next(model.parameters()).device
    cross_entropy(model(images.to(device)), labels.to(device)).backward()


def _slow_saves():
    save, saves = torch.save, []

    def slow(*args, **kwargs):
        saves.append(args)
        time.sleep(_SLOW)  # as a drive on the network may
        return save(*args, **kwargs)

    torch.save = slow
    return saves


def _forward(folder, rank):
    return Path(folder) / f"forward-{rank}"


def _content(path):
    try:
        return state_of(torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        return "nothing"
    except Exception:
        return "no plain state dict"


def _judge_file(rank, results):
    ranks, result = len(results), results[rank]
    expected = results[0]["before"]
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
            " dist.barrier().",
        )
    if rank:
        return
    if isinstance(result["file"], str):
        raise Wrong(
            f"the file holds {result['file']}",
            "Save a state dict, not the model: a class that is pickled cannot be loaded"
            " where its code has moved.",
        )
    if any(name.startswith("module.") for name in result["file"]):
        raise Wrong(
            "the names in the file begin with `module.`, expected `1.weight` and so on",
            "That is the state dict of the DDP wrapper. A plain model cannot load it:"
            " save model.module.state_dict().",
        )
    names = result["file"].keys()
    if names != expected.keys() or gap(expected, result["file"]) > CLOSE:
        raise Wrong(
            "the file differs from the weights and running statistics of rank 0",
            "The evaluation changed the model: in training mode BatchNorm goes on"
            " learning its statistics. Call eval() first.",
        )


def _judge_rank(rank, results):
    ranks, result = len(results), results[rank]
    good, training = _accuracies(results[0]["before"])
    found = result["accuracy"]
    if rank and result["read"]:
        raise Wrong(
            f"rank {rank} of {ranks} read {result['read']} samples, expected 0",
            "Every rank evaluates, and all but one do it for nothing. Evaluate on rank"
            " 0 and send the number to the others.",
        )
    if found is None or abs(found - good) > 1e-3:
        raise Wrong(
            f"rank {rank} of {ranks} returned {found and round(found, 4)},"
            f" expected an accuracy of {good:.4f}",
            _why_accuracy(found, good, training=training, rank=rank),
        )
    if gap(results[0]["before"], result["after"]) > CLOSE:
        raise Wrong(
            f"rank {rank} of {ranks} goes on with other weights or running statistics"
            " than those in the file",
            "Every rank loads the file into model.module, after the barrier.",
        )


def _why_accuracy(found, good, *, training, rank):
    if rank and (found is None or found == 0):
        return (
            "Only rank 0 knows the number. Send it to the others: dist.broadcast of a"
            " tensor from rank 0, on the device of the model."
        )
    if found is None:
        return "Return the share of right answers as a number from 0 to 1."
    if abs(found - training) < 1e-3:
        return (
            "BatchNorm took its statistics from the batch. Call eval() before you"
            " evaluate."
        )
    if min(abs(found - 100 * good), abs(found - _COUNT * good)) < 0.1:
        return "Return the share of right answers, from 0 to 1: right / all."
    return "Count the right answers over all samples of `data`, then divide by all."


@torch.no_grad()
def _accuracies(weights):
    """The share of right answers of rank 0's model, in eval and in training mode."""
    images, labels = reference.samples(_COUNT)
    for training in (False, True):
        plain = reference.network_with_norm().train(training)
        plain.load_state_dict(weights)
        yield (plain(images).argmax(1) == labels).float().mean().item()


class _Why:
    """The hint for ranks that failed or waited in vain."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, error):
        called = [r for r in range(3) if _forward(self.folder, r).exists()]
        if called == [0] and error.kind != "FileNotFoundError":
            return (
                "Only rank 0 called the DDP model, and that call is a collective: DDP"
                " first sends BatchNorm's statistics to all ranks. Evaluate"
                " model.module."
            )
        if error.kind == "FileNotFoundError":
            return (
                f"Rank {error.rank} looks for the file before rank 0 has written it."
                " Let all wait between saving and loading: dist.barrier()."
            )
        if error.kind == "RuntimeError" and "module." in str(error):
            return (
                "The file has the names of the DDP wrapper. Save"
                " model.module.state_dict() and load it into model.module."
            )
        return None
