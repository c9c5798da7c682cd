"""Autocast on virtual GPUs: each operator runs in the type that CUDA's lists give it.

Source of the lists: PyTorch documentation, Automatic Mixed Precision, "Autocast Op
Reference". Numbers are rounded to the type for real; bytes are those of the type, and
the modelled time is that of its rate.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from course_lib.accelerators.hardware import read_table
from course_lib.system.torch_versions import numbers

KEY = "AutocastPrivateUse1"
DTYPES = [torch.float16, torch.bfloat16]
_WIDTHS = [torch.float16, torch.bfloat16, torch.float32]
# weights in the lower type, by id, until the outermost autocast ends
_casts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def register_casts(library: torch.library.Library) -> None:
    """Register what autocast does with operators, in a library of "aten"."""
    for name, policy in policies():
        library.impl(name, _outside(_POLICIES[policy], _overload(name)), KEY)
    for name in ("norm.Scalar", "norm.ScalarOpt_dim"):
        library.impl(name, _outside(_norm, None), KEY)
    library.impl("binary_cross_entropy", _refused, KEY)
    torch.clear_autocast_cache = _clearing(torch.clear_autocast_cache)


def policies() -> list[tuple[str, str]]:
    """Return operators, such as "softmax.int", each with its policy."""
    rows = read_table(Path(__file__).with_suffix(".csv"))
    return [(row["operator"], row["policy"]) for row in rows if _holds(row["torch"])]


def _holds(versions):
    """Whether this torch is among those that ">=2.12" or "<2.13" means, "" all."""
    bound = versions.lstrip("<>=")
    older = bool(bound) and numbers(torch.__version__)[:2] < numbers(bound)
    return older if versions.startswith("<") else not older


def _overload(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _outside(policy, func):
    """Return a kernel that follows the policy where autocast does not step in again."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    def kernel(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return policy(func, args, kwargs)

    return kernel


def _casting(choose):
    """Return the policy that casts all tensors to the type that `choose` names."""

    def policy(func, args, kwargs):
        dtype = choose((args, kwargs))
        named = {name: _cast_within(value, dtype) for name, value in kwargs.items()}
        return func(*[_cast_within(value, dtype) for value in args], **named)

    return policy


def _cast_within(value, dtype):
    """Cast a tensor, or those of a list."""
    if isinstance(value, torch.Tensor):
        return _cast(value, dtype)
    if type(value) in (list, tuple):
        return type(value)(_cast_within(each, dtype) for each in value)
    return value


def _lower(given=None):
    return torch.get_autocast_dtype("vgpu")


def _widest(given):
    dtypes = {tensor.dtype for tensor in tree_leaves(given) if _eligible(tensor)}
    return _lower() if dtypes <= {_lower()} else torch.float32


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
    "lower": _casting(_lower),
    "float32": _casting(lambda given: torch.float32),
    "result float32": _result_float32,
    "widest": _casting(_widest),
}


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
