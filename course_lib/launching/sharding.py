"""What goes wrong with sharded models: `fully_shard`, DTensors, their meshes and files.

PyTorch's texts name operators. Which model, mesh or optimizer is meant is known in the
rank, by the functions that an error has left.
"""

import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import suppress

from course_lib.accelerators.dtensors import is_dtensor
from course_lib.launching.optimizers import stale

_MIXED = "got mixed torch.Tensor and DTensor"
_FULL = (
    "set_model_state_dict(model, dict(weights),"
    " options=StateDictOptions(full_state_dict=True)) on all ranks"
)
# words of PyTorch's, and what helps; {} are the groups of a pattern
_TEXTS = (
    (
        r"Mesh should not be bigger than default world size (\d+), but found (\d+)",
        "The mesh has {1} places, and there are {0} ranks: the sizes of a mesh multiply"
        " to the number of ranks.",
    ),
    (
        r"'FSDP\w+' object has no attribute 'module'",
        "fully_shard wraps nothing, it changes the model itself: leave .module out.",
    ),
    (
        r"Operator c10d\.\S+ does not have a sharding strategy",
        "Collectives take plain tensors, not DTensors: pass to_local(), or let"
        " full_tensor() gather the shards. fully_shard averages gradients itself,"
        " without DDP and without an all-reduce.",
    ),
    (
        r"(passed to DTensor\.__format__|\.tolist\(\) .* got DTensor)",
        "Take full_tensor() first, on all ranks.",
    ),
    (
        r"fully_shard does not support containers that do not implement forward",
        "Shard each layer in it: for layer in layers: fully_shard(layer).",
    ),
    (
        r"FSDP does not support deepcopy",
        "Copy the model before fully_shard, and shard the copy like it.",
    ),
)


def hints(error: BaseException, text: str) -> Iterator[str]:
    """Yield what helps against an error of sharding, whose message is `text`."""
    if "torch.distributed.device_mesh" not in sys.modules:
        return
    stack = [*_calls(error)]
    explanations = _of_words, _of_mesh, _of_order, _of_optimizer, _of_loading, _of_mix
    with suppress(Exception):  # what the learner has made may not like to be asked
        found = filter(None, (explain(text, stack) for explain in explanations))
        yield from itertools.islice(found, 1)


def _calls(error):
    """Yield function and variables of each frame that the error left, outermost first.

    Those are the objects themselves: only look at them.
    """
    step = error.__traceback__
    while step:
        yield step.tb_frame.f_code.co_name, step.tb_frame.f_locals
        step = step.tb_next


def _of_words(text, stack):
    for words, advice in _TEXTS:
        if found := re.search(words, text):
            return advice.format(*found.groups())
    return ""


def _of_mesh(text, stack):
    """Of a mesh that has no place for this rank, or places for ranks that are not."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return ""
    size = dist.get_world_size()
    for function, local in stack:
        mesh = local.get("mesh") if function == "fully_shard" else None
        if mesh is not None and mesh.get_coordinate() is None:
            return (
                f"A mesh of {mesh.size()} has no place for rank {dist.get_rank()} of"
                f" {size}: the sizes of a mesh multiply to the number of ranks."
            )
        tensor = local.get("self")
        if is_dtensor(tensor) and tensor.device_mesh.size() > size:
            return (
                f"It is a shard of a mesh of {tensor.device_mesh.size()} ranks, as of a"
                f" file that those have written, and there are {size}. {_ANEW}"
            )
    return ""


_ANEW = "dcp.save and dcp.load deal shards anew to any number of ranks."


def _of_order(text, stack):
    """Of a part that is sharded after the whole."""
    for function, local in stack:
        module = local.get("module") if function == "fully_shard" else None
        managed = getattr(module, "_is_fsdp_managed_module", False)
        if managed and "only be applied to a module once" not in text:
            return (
                "This module is part of one that is sharded already: fully_shard takes"
                " the inner modules first, the whole model last."
            )
    return ""


def _of_optimizer(text, stack):
    """Of a GradScaler whose optimizer has no gradients, as its parameters are old."""
    if "No inf checks were recorded" not in text:
        return ""
    optimizers = (local.get("optimizer") for _, local in stack)
    return next(filter(None, map(stale, filter(None, optimizers))), "")


def _of_loading(text, stack):
    """Of weights that are sharded otherwise than the model that should take them."""
    for function, local in stack:
        model, weights = local.get("self"), local.get("state_dict")
        if function != "load_state_dict" or not _has_parameters(model) or not weights:
            continue
        if "different meshes" in text:
            return _of_meshes(model, weights)
        own = {
            name: parameter
            for name, parameter in model.named_parameters()
            if is_dtensor(parameter)
        }
        if _MIXED in text and any(map(is_dtensor, weights.values())) and not own:
            return (
                "The weights are shards, and the model is plain: take full_tensor() of"
                " each on all ranks, or shard the model before."
            )
        whole = any(name in weights and not is_dtensor(weights[name]) for name in own)
        assigned = "has no attribute '_local_tensor'" in text
        if (_MIXED in text and whole) or (assigned and stack[-1][0] == _RESET):
            return f"The model is sharded, and these weights are whole: {_FULL}."
        if "size mismatch" in text and _are_local(own, weights):
            return (
                "These weights have the sizes of this rank's part, as to_local() gives"
                " it without its place: load the DTensors of state_dict() as they are."
            )
    return ""


_RESET = "reset_sharded_param"


def _of_meshes(model, weights):
    sides = [model.parameters(), weights.values()]
    own, given = ([t.device_mesh for t in side if is_dtensor(t)][:1] for side in sides)
    if not own or not given:
        return ""
    return (
        f"The weights are shards of a mesh of {_sizes(given[0])}, the model's of"
        f" {_sizes(own[0])}. {_ANEW}"
    )


def _sizes(mesh):
    return " x ".join(map(str, mesh.shape)) + (" ranks" if mesh.ndim == 1 else "")


def _are_local(own, weights):
    """True if the weights have the shapes of this rank's parts, not those of wholes."""
    pairs = [(weights[name], part) for name, part in own.items() if name in weights]
    local = all(weight.shape == part.to_local().shape for weight, part in pairs)
    return local and any(weight.shape != part.shape for weight, part in pairs)


def _of_mix(text, stack):
    """Of an operator that got whole tensors and shards."""
    if _MIXED not in text:
        return ""
    if "foreach_" in text and (names := _left_plain(stack)):
        return (
            f"Not sharded: {names}. fully_shard(model), after its blocks, shards what"
            " they have left."
        )
    modules = [local.get("self") for _, local in stack]
    for module in filter(_has_parameters, reversed(modules)):
        managed = getattr(module, "_is_fsdp_managed_module", False)
        if managed and any(map(is_dtensor, module.parameters(recurse=False))):
            return _not_gathered(module, stack) or _TWO_KINDS
    return _TWO_KINDS


_TWO_KINDS = (
    "A DTensor does not compute with a plain tensor: take its full_tensor() on all"
    " ranks, or its to_local(), or make a DTensor of the other one, too."
)


def _not_gathered(module, stack):
    """Say in which call the weights of this module would be gathered; "" if it was."""
    kind = f"The weights of this {type(module).__name__} are still shards"
    calls = [(name, local.get("self")) for name, local in reversed(stack)]
    for function, model in calls:
        if not _is_sharded(model) or module not in model.modules():
            continue
        if any(name == "_call_impl" and each is model for name, each in calls):
            return ""
        lets = f", or register_fsdp_forward_method(model, {function!r}) before"
        return (
            f"{kind}: fully_shard gathers them in model(x), and model.{function}() is"
            f" another call. Call model(x){'' if function == 'forward' else lets}."
        )
    return (
        f"{kind}: they are gathered when the module is called that fully_shard was"
        " given, and this is a part of it. Call that one, or shard the part, too."
    )


def _left_plain(stack):
    """Return the names of parameters that are plain in a model with sharded parts."""
    models = (value for _, local in stack for value in local.values())
    for model in filter(_has_parameters, models):
        plain = [n for n, p in model.named_parameters() if not is_dtensor(p)]
        if plain and any(map(_is_sharded, model.modules())):
            return ", ".join(plain[:_MOST]) + (" …" if len(plain) > _MOST else "")
    return ""


_MOST = 6  # names


def _has_parameters(value):
    from torch import nn

    return isinstance(value, nn.Module)


def _is_sharded(value):
    module = sys.modules.get("torch.distributed.fsdp")
    return module is not None and isinstance(value, module.FSDPModule)
