"""Autocast on virtual GPUs: each operator runs in the type that CUDA's lists give it.

Source of the lists: PyTorch documentation, Automatic Mixed Precision, "Autocast Op
Reference". Numbers are rounded to the type for real; bytes are those of the type, and
the modelled time is that of its rate.
"""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

KEY = "AutocastPrivateUse1"
DTYPES = [torch.float16, torch.bfloat16]
_WIDTHS = [torch.float16, torch.bfloat16, torch.float32]
# weights in the lower type, by id, until the outermost autocast ends
_casts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def serve(library: torch.library.Library) -> None:
    """Register what autocast does with operators, in a library of "aten"."""
    for name, policy in policies():
        library.impl(name, _outside(_POLICIES[policy], _overload(name)), KEY)
    for name in ("norm.Scalar", "norm.ScalarOpt_dim"):
        library.impl(name, _outside(_norm, None), KEY)
    library.impl("binary_cross_entropy", _refused, KEY)
    torch.clear_autocast_cache = _clearing(torch.clear_autocast_cache)


def policies() -> list[tuple[str, str]]:
    """Operators, such as "softmax.int", each with what is done: see autocast.csv."""
    text = Path(__file__).with_suffix(".csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if line[0] != "#")
    return [(row["operator"], row["policy"]) for row in rows]


def _overload(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _outside(policy, func):
    """A kernel that follows the policy where autocast does not step in again."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    def kernel(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return policy(func, args, kwargs)

    return kernel


def _lower(func, args, kwargs):
    args, kwargs = _in(torch.get_autocast_dtype("vgpu"), (args, kwargs))
    return func(*args, **kwargs)


def _float32(func, args, kwargs):
    args, kwargs = _in(torch.float32, (args, kwargs))
    return func(*args, **kwargs)


def _widest(func, args, kwargs):
    dtypes = {t.dtype for t in tree_leaves((args, kwargs)) if _eligible(t)}
    lower = torch.get_autocast_dtype("vgpu")
    widest = lower if dtypes <= {lower} else torch.float32
    args, kwargs = _in(widest, (args, kwargs))
    return func(*args, **kwargs)


def _result_float32(func, args, kwargs):
    names = [argument.name for argument in func._schema.arguments]
    given = kwargs.get("dtype") or args[names.index("dtype") :]
    if _eligible(args[0]) and not given:
        kwargs = {**kwargs, "dtype": torch.float32}
    return func(*args, **kwargs)


def _norm(_, args, kwargs):
    if _eligible(args[0]):
        kwargs = {**kwargs, "dtype": torch.float32}
    return torch.ops.aten.norm(*args, **kwargs)


def _refused(*_, **__):
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to"
        " autocast: use binary_cross_entropy_with_logits or BCEWithLogitsLoss, and"
        " leave out the sigmoid before it."
    )


_POLICIES = {
    "lower": _lower,
    "float32": _float32,
    "result float32": _result_float32,
    "widest": _widest,
}


def _in(dtype, given):
    """What an operator is given, with its tensors in `dtype`."""
    return tree_map_only(torch.Tensor, lambda tensor: _cast(tensor, dtype), given)


def _eligible(value):
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "vgpu"
        and value.dtype in _WIDTHS
    )


def _cast(tensor, dtype):
    if not _eligible(tensor) or tensor.dtype == dtype:
        return tensor
    if not _kept(tensor, dtype):
        return tensor.to(dtype)
    if id(tensor) not in _casts:
        # the weight itself is kept, too: its id must not become that of another
        _casts[id(tensor)] = tensor, tensor.to(dtype)
    return _casts[id(tensor)][1]


def _kept(tensor, dtype):
    """Whether autocast on CUDA would cast this tensor once only: if it is a weight."""
    return (
        dtype is not torch.float32
        and tensor.requires_grad
        and tensor.is_leaf
        and torch.is_grad_enabled()
        and torch.is_autocast_cache_enabled()
    )


def _clearing(original):
    def clear():
        _casts.clear()
        original()

    return clear
