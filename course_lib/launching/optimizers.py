"""An optimizer whose parameters a sharded model has no more.

Its steps change nothing of the model, and PyTorch says nothing.
"""

import gc
import sys
import warnings
import weakref
from contextlib import suppress
from types import FrameType

from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from course_lib.accelerators.dtensors import is_dtensor
from course_lib.stacks import Frame, is_learners


def watch() -> None:
    """Let the first step of such an optimizer warn in this process."""
    known: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def look(optimizer, args, kwargs):
        sentence = ""
        with suppress(Exception):  # an optimizer may be of a kind of its own
            if optimizer not in known:
                known.add(optimizer)
                sentence = stale(optimizer)
        if sentence:
            _warn(sentence)

    register_optimizer_step_pre_hook(look)


def stale(optimizer: Optimizer) -> str:
    """Say how many parameters of an optimizer are none of a sharded model's, or ""."""
    everything = [p for group in optimizer.param_groups for p in group["params"]]
    idle = [parameter for parameter in everything if parameter.grad is None]
    # so fully_shard marks parameters that it replaces
    if count := sum(hasattr(parameter, "_fsdp_orig_uid") for parameter in idle):
        return (
            f"{count} of {len(everything)} parameters of this optimizer are not the"
            " model's any more: fully_shard has put others in their place. Make the"
            " optimizer after fully_shard."
        )
    if count := sum(map(_is_freed, idle)):
        return (
            f"{count} of {len(everything)} parameters of this optimizer were gathered"
            " for a forward, and are freed. Make the optimizer before the first"
            " forward, or after model.reshard()."
        )
    return ""


def _is_freed(parameter):
    """True for what fully_shard has gathered, and given up again."""
    if is_dtensor(parameter) or not parameter.numel():
        return False
    if parameter.untyped_storage().size():
        return False
    # whoever frees by hand keeps it in another way
    holders = gc.get_referrers(parameter)
    held = (
        each if isinstance(each, dict) else getattr(each, "__dict__", {})
        for each in holders
    )
    return any(each.get("_unsharded_param") is parameter for each in held)


def _warn(sentence):
    """Warn in the learner's line, whatever libraries are between."""
    frame: FrameType | None = sys._getframe(1)
    while frame and not is_learners(Frame(frame.f_code.co_filename, 0, "")):
        frame = frame.f_back
    place = (frame.f_code.co_filename, frame.f_lineno) if frame else ("<rank>", 0)
    warnings.warn_explicit(sentence, UserWarning, *place)
