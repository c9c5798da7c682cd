"""What an operator costs a GPU: floating-point operations, else bytes moved.

A model, by the roofline of Williams, Waterman and Patterson, "Roofline: An Insightful
Visual Performance Model for Multicore Architectures" (2009): kernels at their peaks.
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten


# by hand, since the registry walks through all arguments, which takes longer than a
# small product itself
def _product(position):
    def count(args, kwargs, out):
        return 2 * out.numel() * args[position].shape[-1]

    return count


_PRODUCTS = {aten.mm: 0, aten.bmm: 0, aten.mv: 0, aten.addmm: 1, aten.baddbmm: 1}
# where an attention in one kernel has its query and `is_causal`
_ATTENTION = {
    aten._scaled_dot_product_fused_attention_overrideable: (0, 5),
    aten._scaled_dot_product_fused_attention_overrideable_backward: (1, 13),
}


def flops_of(func):
    """Return what counts FLOPs of (args, kwargs, out); None if bytes decide."""
    packet = func.overloadpacket
    if packet in _PRODUCTS:
        return _product(_PRODUCTS[packet])
    count = flop_registry.get(packet)
    if count is None:
        return None
    if packet in _ATTENTION:
        return _causal(count, *_ATTENTION[packet])
    return lambda args, kwargs, out: count(*args, **kwargs, out_val=out)


def _causal(count, query, causal):
    """Return the same count without the pairs that a causal mask leaves out.

    FlopCounterMode counts them; the kernels of CUDA skip them (Dao, 2024,
    FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning).
    """

    def kept(args, kwargs, out):
        flops = count(*args, **kwargs, out_val=out)
        if not (args[causal] if len(args) > causal else kwargs.get("is_causal")):
            return flops
        rows, columns = args[query].shape[-2], args[query + 1].shape[-2]
        square = min(rows, columns)
        pairs = square * (square + 1) // 2 + (rows - square) * columns
        return flops * pairs // (rows * columns)

    return kept


def switch_of(func):
    """Return PyTorch's switch for TF32 that an operator obeys, None if it has none.

    cuDNN's convolutions have it on by default, products of matrices off:
    https://docs.pytorch.org/docs/stable/notes/cuda.html
    """
    name = func.overloadpacket.__name__
    if "conv" in name:
        return torch.backends.cudnn.conv
    products = func.overloadpacket in _PRODUCTS or "attention" in name
    return torch.backends.cuda.matmul if products else None


_NAMES = {getattr(torch, n): n for n in ("float64", "float32", "float16", "bfloat16")}


def rate_of(dtype, switch=None) -> str:
    """Return the name of the rate, in a data sheet, at which `dtype` is computed."""
    name = _NAMES.get(dtype, "float32")
    if name == "float32" and switch is not None and switch.fp32_precision == "tf32":
        return "tfloat32"
    return name
