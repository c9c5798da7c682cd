"""A learner's answer, run in fresh ranks, and what they did beside what was asked."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from course_lib import launcher, plots, request
from course_lib.errors import LaunchError
from course_lib.results import Results, short
from course_lib.timeline import Trace

CLOSE = 1e-4  # weights that agree; a mistake changes them by far more
SECONDS = 20.0  # for one launch; a rank that waits longer waits for ever

# what PyTorch says, and what it means to who writes an exercise
_SAYINGS = (
    (
        "Default process group has not been initialized",
        "Join the group with dist.init_process_group before anything that needs it:"
        " DDP, a sampler, a collective.",
    ),
    (
        "initialize the default process group twice",
        "The group is there already. This exercise asks for the part after it.",
    ),
    (
        "sampler option is mutually exclusive with shuffle",
        "With a sampler the loader must not shuffle: the sampler decides the order.",
    ),
    (
        "positional argument",
        "Keep the parameters of the function as the exercise gives them.",
    ),
    (
        "unexpected keyword argument",
        "Keep the parameters of the function as the exercise gives them.",
    ),
)

_GENERAL = {
    "late": "Ranks that wait for each other make different collective calls. Compare"
    " the lines above: every rank must make the same calls, in the same order.",
    "lost": "Every rank must make the same collective calls, in the same order.",
    "killed": "Ranks that make different collective calls can crash: one receives what"
    " another sent for something else.",
}


class Wrong(Exception):
    """What an answer did, and what a right one does; `hint` is about this mistake."""

    def __init__(self, found: str, hint: str = "", lines: tuple[str, ...] = ()):
        super().__init__(found)
        self.hint, self.lines = hint, lines


class Missing(Exception):
    """The answer is not written yet."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: how long it takes, what checks it, hints that say ever more.

    `check(attempt)` returns a sentence on what was right and raises `Wrong` otherwise.
    """

    id: str
    title: str
    minutes: int
    check: Callable
    hints: tuple[str, ...]


class Attempt:
    """The answer to one exercise: call it to run the answer in fresh ranks."""

    def __init__(self, answer, *, timeout: float = SECONDS):
        self.answer, self.timeout = answer, timeout
        self.name = request.name(answer)
        self.picture = None  # a function that draws, for the notebook

    def __call__(self, body, *args, world_size: int, trace=False, why=None) -> Results:
        """What `body(rank, world_size, answer, *args)` returned on each rank.

        `why(error)` gives the hint for a launch that failed, or None.

        Errors: `Missing` for a stub, `Wrong` with rank and line if a rank fails.
        """
        asked = request.check(
            _Named(body, self.answer, self.name),
            args=args,
            kwargs={},
            world_size=world_size,
            trace=trace,
            timeout=self.timeout,
            nodes=None,
        )
        try:
            return launcher.run(asked, quiet=True)
        except LaunchError as error:
            if error.kind == "NotImplementedError":
                raise Missing from None
            raise _failure(error, why) from None

    def draw(self, trace: Trace | None) -> None:
        """Let the notebook show this timeline above the outcome."""
        if trace is not None and len(trace):
            self.picture = lambda: plots.plot_timeline(trace)


class _Named:
    """A function of ranks under the name of the learner's own, for messages."""

    def __init__(self, body, answer, name):
        self.body, self.answer, self.__name__ = body, answer, name

    def __call__(self, rank, world_size, *args):
        return self.body(rank, world_size, self.answer, *args)


def _failure(error, why):
    """The failed launch as a mistake: its sentence, the learner's lines, a hint."""
    head, *lines = str(error).split("\n")
    lines = tuple(line for line in lines if "cl.last_error()" not in line)
    hint = next((hint for text, hint in _SAYINGS if text in head), "")
    hint = hint or (why and why(error)) or _GENERAL.get(error.kind, "")
    return Wrong(head, hint, lines)


@contextlib.contextmanager
def group(rank: int, world_size: int):
    """The process group of a check, and the device of this rank, in a block."""
    on_gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    try:
        yield device
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


class Watched(TensorDataset):
    """A data set that notes in `read` which samples were asked for, in order."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.read = []

    def __getitem__(self, index):
        self.read.append(index)
        return super().__getitem__(index)


def state_of(value):
    """A state dict as tensors on the CPU, also of a module; else what it is instead."""
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, dict) and all(map(torch.is_tensor, value.values())):
        return {name: tensor.detach().cpu().clone() for name, tensor in value.items()}
    return short(value)


def gap(one: dict, other: dict) -> float:
    """The largest difference between two state dicts of the same names."""
    gaps = [(one[name].double() - other[name].double()).abs().max() for name in one]
    largest = torch.stack(gaps).max().item()  # nan if one of them is
    return largest if largest == largest else float("inf")


def agree(states: Sequence, expected: dict, *, hint: str) -> dict:
    """The weights that all ranks ended with.

    Errors: `Wrong` if one gave no such weights, or (with `hint`) others than rank 0.
    """
    ranks = len(states)
    for rank, state in enumerate(states):
        _refuse_other(state, expected, where=f"rank {rank} of {ranks}")
    for rank, state in enumerate(states):
        apart = gap(states[0], state)
        if apart > CLOSE:
            raise Wrong(
                f"rank {rank} of {ranks} ends with other weights than rank 0: they"
                f" differ by up to {apart:.2g}",
                hint,
            )
    return states[0]


def _refuse_other(state, expected, *, where):
    if isinstance(state, str):
        raise Wrong(
            f"{where} returned {state}, expected the weights as a state dict",
            "Return model.module.state_dict().",
        )
    if state.keys() != expected.keys():
        raise Wrong(
            f"{where} returned weights named {', '.join(state)[:60]},"
            f" expected {', '.join(expected)[:60]}",
            "These are the names of the DDP wrapper. Return model.module.state_dict().",
        )


def number_of(value) -> float | None:
    """A number or a tensor of one, as a float; None for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def reduced(trace: Trace, rank: int) -> list[int]:
    """The bytes of each all-reduce of a rank, in order."""
    return [e.bytes for e in trace.select(rank, "communicate", "all_reduce")]


def steps_of(trace: Trace, first: int, last: int) -> Trace | None:
    """What happened after optimizer step `first` of rank 0 until step `last` (from 0).

    None if there were fewer steps.
    """
    steps = trace.select(rank=0, name="optimizer").events
    if len(steps) <= last:
        return None
    return trace.between(steps[first].stop, steps[last].stop)
