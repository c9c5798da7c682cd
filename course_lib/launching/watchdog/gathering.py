"""What of a sharded program takes all ranks, though it looks like work of one.

A rank that waits in it is known by PyTorch's frames below the learner's last line.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from course_lib.stacks import Frame, is_learners

_DISTRIBUTED = os.path.join("torch", "distributed", "")
_MODULES = os.path.join("torch", "nn", "modules", "")
_FSDP = os.path.join(_DISTRIBUTED, "fsdp", "_fully_shard", "")
_DTENSOR = os.path.join(_DISTRIBUTED, "tensor", "")
_SAVED = os.path.join(_DISTRIBUTED, "checkpoint", "")
_STATES = ("state_dict", "model_state_dict", "optimizer_state_dict")


class Gathering(NamedTuple):
    """What some functions of PyTorch do: their files, their names, name and use.

    In `name` {} is what the learner called. It takes all ranks, as `why` says; `trains`
    is True for what makes a call for each block of a model.
    """

    files: str  # how their paths go on from here
    functions: tuple[str, ...]
    name: str
    why: str
    advice: str
    trains: bool = False


_ALL = "Call it on all ranks."
# a frame further out decides
_KINDS = (
    Gathering(
        f"{_SAVED}state_dict.py",
        tuple(f"get_{of}" for of in _STATES),
        "{}()",
        "which gathers the shards of all ranks",
        f"{_ALL[:-1]}, then save on rank 0 alone.",
    ),
    Gathering(
        f"{_SAVED}state_dict.py",
        tuple(f"set_{of}" for of in _STATES),
        "{}()",
        "which gives all ranks their shards",
        _ALL,
    ),
    Gathering(
        f"{_SAVED}state_dict_",
        ("save", "async_save", "load"),
        "dcp.{}()",
        "which all ranks do together",
        _ALL,
    ),
    Gathering(
        f"{_FSDP}_fsdp_state.py",
        ("_pre_forward",),
        "the forward of a sharded model",
        "which gathers weights from all ranks",
        "All ranks must call the model equally often, also to evaluate it.",
        trains=True,
    ),
    Gathering(
        _FSDP,
        ("_pre_backward", "post_backward", "_root_post_backward_final_callback"),
        "the backward of a sharded model",
        "which gathers weights and adds up gradients of all ranks",
        "All ranks must call backward equally often.",
        trains=True,
    ),
    Gathering(
        _FSDP, ("unshard",), "{}()", "which gathers weights from all ranks", _ALL
    ),
    Gathering(
        f"{_DTENSOR}_api.py",
        ("full_tensor",),
        "{}()",
        "which gathers the shards of all ranks",
        f"{_ALL[:-1]}, then use the tensor on rank 0 alone.",
    ),
    Gathering(
        f"{_DTENSOR}_api.py",
        ("distribute_tensor",),
        "{}()",
        "which gives all ranks their shards",
        _ALL,
    ),
    Gathering(
        _DTENSOR,
        ("redistribute", "redistribute_local_args"),
        "{} of a DTensor",
        "which takes the shards of all ranks",
        "Compute it on all ranks, then use the result on rank 0 alone.",
    ),
)


def find(frames: Sequence[Frame]) -> Gathering | None:
    """Return in what a rank with this stack is, named; None if in none of them."""
    learners = [number for number, frame in enumerate(frames) if is_learners(frame)]
    inner = frames[learners[-1] + 1 :] if learners else frames
    for frame in inner:
        for kind in _KINDS:
            if kind.files in frame.file and frame.function in kind.functions:
                return kind._replace(name=kind.name.format(_called(kind, frame, inner)))
    return None


def _called(kind, frame, inner):
    """Return what the learner called: that function, or of operators the outermost."""
    if kind.functions[0] != "redistribute":
        return frame.function
    outer = next(each for each in inner if each is frame or _is_public(each))
    return (
        "an operator" if outer.function in kind.functions[1:] else f"{outer.function}()"
    )


def _is_public(frame):
    hidden = f"{os.sep}_" in frame.file or _MODULES in frame.file
    return not (hidden or frame.function.startswith("_"))
