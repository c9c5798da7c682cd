"""What checks look at: weights, numbers, what travelled."""

import contextlib
import operator
import os
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from course_lib.errors import LaunchError
from course_lib.exercises.exercise import Wrong
from course_lib.exercises.values import plain
from course_lib.stacks import is_learners
from course_lib.text import short
from course_lib.tracing.events import Trace

CLOSE = 1e-4  # weights that agree; a mistake changes them by far more
SMALL = 32  # bytes: a loss to report or a note of DDP's own, no gradient


@contextlib.contextmanager
def group(rank: int, world_size: int, *, gpus: bool = True):
    """Join the process group of a check in a block, which gets this rank's device.

    On the CPU without `gpus`, and where ranks would share one: gloo cannot send CUDA
    tensors, and an answer that sends is right everywhere or nowhere. An answer that
    destroys the group fails in that line.
    """
    local_rank, device = int(os.environ["LOCAL_RANK"]), torch.device("cpu")
    own = int(os.environ["LOCAL_WORLD_SIZE"]) <= torch.cuda.device_count()
    if gpus and own:
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        dist.init_process_group("gloo")
    dist.barrier()  # an answer that does nothing may leave while another rank joins
    destroy, dist.destroy_process_group = dist.destroy_process_group, _refuse_leaving
    try:
        yield device
        if not dist.is_initialized():
            _refuse_leaving()
    finally:
        dist.destroy_process_group = destroy
        if dist.is_initialized():
            destroy()


def _refuse_leaving(*_, **__):
    raise RuntimeError("this destroys the group of the training")


@contextlib.contextmanager
def replaced(owner: type, name: str, wrap: Callable):
    """Put in a block `wrap(method)` in the place of a method."""
    method = getattr(owner, name)
    setattr(owner, name, wrap(method))
    try:
        yield
    finally:
        setattr(owner, name, method)


@contextlib.contextmanager
def noted(owner: type, name: str):
    """Note in a block what the method `name` of a class is called with, in order."""
    calls: list[tuple] = []

    def noting(method):
        def noted_call(self, *args, **kwargs):
            calls.append((*args, *kwargs.values()))
            return method(self, *args, **kwargs)

        return noted_call

    with replaced(owner, name, noting):
        yield calls


def state_of(value):
    """Return a state dict, or a module's, as CPU tensors; else what it is instead.

    Errors: `RuntimeError` for a module without numbers, or with too many to look at.
    """
    state = plain(value.state_dict() if isinstance(value, torch.nn.Module) else value)
    if isinstance(state, dict) and all(map(torch.is_tensor, state.values())):
        return state
    if isinstance(value, torch.nn.Module):
        raise RuntimeError(f"the weights of the model are {short(state)}")
    return short(state)


def is_model(found: object, methods: Sequence[str]) -> bool:
    """Return whether it is a module with these methods; a class is none."""
    own = (getattr(found, name, None) for name in methods)
    return isinstance(found, torch.nn.Module) and all(map(callable, own))


def numbers_of(module: torch.nn.Module) -> dict:
    """Return copies of all parameters and buffers, also those that no checkpoint has.

    Those are `persistent=False`; a weight under two names comes under the first.
    """
    return plain(dict([*module.named_parameters(), *module.named_buffers()]))


def gradients_of(model: torch.nn.Module) -> dict:
    """Return the gradients that are there, copied to the CPU, by parameter names."""
    grads = {name: p.grad for name, p in model.named_parameters()}
    return {n: g.detach().cpu().clone() for n, g in grads.items() if g is not None}


def are_same(handed: Sequence, given: Sequence) -> bool:
    """Return True if a list still holds the very things that were handed over in it."""
    return len(handed) == len(given) and all(map(operator.is_, handed, given))


def largest(state: dict) -> float:
    """Return the largest number of a state dict, without its sign; nan if one is."""
    return torch.stack([value.abs().max() for value in state.values()]).max().item()


def gap(one: dict, other: dict) -> float:
    """Return the largest difference of two state dicts; inf for nan or other shapes."""
    if _shapes(one) != _shapes(other):
        return float("inf")
    gaps = [(one[name].float() - other[name].float()).abs().max() for name in one]
    largest = torch.stack(gaps).max().item()  # nan if one of them is
    return largest if largest == largest else float("inf")


def apart(found: dict, expected: dict) -> dict:
    """Return by how much each tensor of a state dict differs; {} for other shapes."""
    if _shapes(found) != _shapes(expected):
        return {}
    return {name: found[name] - expected[name] for name in expected}


def refuse_weights(returned: Sequence, expected: dict, *, hint: str, also=None) -> None:
    """Refuse what ranks returned, unless all of it is the expected state dict.

    Errors: `Wrong`; where names and shapes are right with `hint`, by how much each rank
    differs as the clue, and what was seen `also`.
    """
    states, ranks = [state_of(one) for one in returned], len(returned)
    for rank, state in enumerate(states):
        _refuse_other(state, expected, rank=rank, ranks=ranks)
    clue = {"apart": [apart(one, expected) for one in states]}
    told = {"hint": hint, "clue": clue, "also": also}
    for rank, state in enumerate(states):
        off = gap(states[0], state)
        if off > CLOSE:
            raise Wrong(
                f"rank {rank} of {ranks} ends with other weights than rank 0: they"
                f" differ by up to {off:.2g}",
                **told,
            )
    off = gap(states[0], expected)
    if off > CLOSE:
        raise Wrong(
            f"the weights of {ranks} ranks differ from those of one process by up to"
            f" {off:.2g}, expected at most {CLOSE:g}",
            **told,
        )


def _refuse_other(state, expected, *, rank, ranks):
    if isinstance(state, str):
        raise Wrong(
            f"rank {rank} of {ranks} returned {state}, expected the weights as a state"
            " dict",
            "Rank 0 returned weights, and so must every rank: its return stands outside"
            " of any `if rank == 0`."
            if rank
            else "The function must return weights. Under DDP they are in"
            " model.module.state_dict().",
        )
    if _shapes(state) != _shapes(expected):
        wrapped = any(str(name).startswith("module.") for name in state)
        raise Wrong(
            f"rank {rank} of {ranks} returned the weights {short(state)}, expected"
            f" {short(expected)}",
            "These are the names of the DDP wrapper: ask model.module for its state."
            if wrapped
            else "Train the model that is given, all of it, and return its state dict.",
        )
    if gap(state, state) != 0:
        raise Wrong(
            f"rank {rank} of {ranks} ends with weights that are no numbers (nan)",
            "The steps are far too long. Is the loss a mean? Is zero_grad called"
            " before each backward?",
        )


def _shapes(state):
    return {name: value.shape for name, value in state.items()}


def near(found: float | None, expected: float, most: float = CLOSE) -> bool:
    """Return whether a number is there (none and nan are not) and differs by `most`."""
    return found is not None and abs(found - expected) <= most


def own_lines(error: LaunchError) -> set:
    """Return the lines of the answer that ranks were in when they were stopped."""
    own = ([f for f in frames if is_learners(f)] for frames in error.where.values())
    return {frames[-1] for frames in own if frames}


def draw_steps(trace: Trace | None, first: int, last: int):
    """Draw the timeline after optimizer step `first` of rank 0 until step `last`.

    Steps count from 0; of a trace with fewer steps all is drawn.
    """
    from course_lib.plots.timeline import plot_timeline

    if not trace:
        return None
    steps = trace.select(rank=0, name="optimizer").events
    if len(steps) > last:
        trace = trace.between(steps[first].stop, steps[last].stop)
    return plot_timeline(trace)
