"""Exercise 4.3: evaluate and save on rank 0, load on all, without a deadlock."""

import tempfile
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.compare import CLOSE, gap, group, near, number_of, state_of
from course_lib.exercises.stages.stage04.saving_mistakes import (
    COUNT,
    PLAIN,
    forward_mark,
    why_accuracy,
    why_failed,
)
from course_lib.exercises.stages.stage04.slow_saves import slow_saves
from course_lib.text import short


@baseline.settled()
def check_save(attempt: Attempt) -> str:
    """Look at the file, the accuracy and the loaded weights of every rank."""
    data = baseline.samples(COUNT)
    # seconds between the halves of the file: no pause guesses both
    for ranks, pause in ((2, 0.5), (3, 2.0)):
        with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
            why = partial(why_failed, folder)
            results = attempt(_save, data, folder, pause, world_size=ranks, why=why)
        for judge in (_judge_save, _judge_file, _judge_work, _judge_rank, _judge_mode):
            for rank in range(ranks):
                judge(rank, results)
    return "rank 0 evaluated and saved, 2 and 3 ranks loaded, and nobody was stuck"


def _save(rank, world_size, answer, /, *given):
    (images, labels), folder, pause = given
    data, path = TensorDataset(images, labels), Path(folder) / "weights.pt"
    with group(rank, world_size) as device:
        model = DDP(baseline.network_with_norm(seed=rank).to(device))
        _step(model, images[rank::world_size], labels[rank::world_size])
        before = state_of(model.module.state_dict())
        modes = []  # of BatchNorm, for each forward

        def forward(module, _):
            if module is model:
                forward_mark(folder, rank).touch()
            if module is model.module:
                modes.append(module.training)

        # for all modules: a hook of its own would be pickled with the model
        handle = register_module_forward_pre_hook(forward)
        saving = Path(folder) / "saving"
        with slow_saves(answer, saving, seconds=pause) as saves:
            accuracy = answer(rank, model, data, str(path))
        handle.remove()
        return {
            "accuracy": number_of(accuracy),
            "said": short(accuracy),
            # at once, before rank 0 goes on
            "there": path.exists() and not saving.exists(),
            "file": None if rank else _content(path),
            "saves": len(saves),
            "modes": modes,
            "training": all(module.training for module in model.modules()),
            "before": before,
            "after": state_of(model.module.state_dict()),
        }


def _step(model, images, labels):
    """A backward on other data per rank: now the running statistics differ, too."""
    device = next(model.parameters()).device
    cross_entropy(model(images.to(device)), labels.to(device)).backward()


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
            f"rank {rank} of {ranks} returned before the file was complete",
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
            f"the file holds {found}", checkpoint if found.startswith("{") else PLAIN
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
    if gap(expected, found) > CLOSE:
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
            why_accuracy(found, good, where=(rank, ranks)),
        )
    if gap(results[0]["before"], result["after"]) > CLOSE:
        raise Wrong(
            f"rank {rank} of {ranks} goes on with other weights or running statistics"
            " than those in the file",
            "Every rank loads the file into model.module, after the barrier.",
        )


def _judge_mode(rank, results):
    if results[rank]["training"]:
        return
    if any(result["training"] for result in results):
        hint = (
            f"Rank {rank} stays in eval mode and its BatchNorm would go on in another"
            " way than that of others: call model.train() at the end."
        )
    else:
        hint = (
            "The training goes on after this function, and BatchNorm must learn again:"
            " call model.train() at the end."
        )
    raise Wrong(
        f"rank {rank} of {len(results)} leaves the model in eval mode, expected"
        " training mode, as before",
        hint,
    )


@torch.no_grad()
def _accuracy(weights):
    """The share of right answers of rank 0's model."""
    images, labels = baseline.samples(COUNT)
    plain = baseline.network_with_norm().eval()
    plain.load_state_dict(weights)
    return (plain(images).argmax(1) == labels).float().mean().item()
