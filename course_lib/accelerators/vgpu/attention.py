"""Attention in one kernel, as on CUDA: its matrix of scores is not kept.

CUDA has two kernels that keep query, key, value, output and one number per row, the
logarithm of the sum of exponentials, and compute the scores again in backward: Dao et
al., 2022, FlashAttention; Rabe and Staats, 2021, Self-attention Does Not Need O(n²)
Memory. PyTorch has an operator for what a backend of its own brings; here it runs on
the CPU's tensors, some heads at a time. Where CUDA would take neither, the plain
operators follow each other, as before.
"""

from __future__ import annotations

import math

import torch
from torch.utils.flop_counter import (
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from course_lib.accelerators.vgpu.operators import SPECIAL
from course_lib.accelerators.vgpu.tensors import VirtualTensor

aten = torch.ops.aten
_PLAIN = aten.scaled_dot_product_attention.default
_FORWARD = aten._scaled_dot_product_fused_attention_overrideable
_BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward
_DEFAULTS = None, 0.0, False  # of a bias, of dropout, of a causal mask
_SCORES = 2**24  # numbers of the matrix of scores that exist at once


# the arguments are those of F.scaled_dot_product_attention
def attention(  # noqa: PLR0917
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **rest
):
    """Run `F.scaled_dot_product_attention` by the kernel that CUDA would choose."""
    options = attn_mask, dropout_p, is_causal
    tensors = query, key, value
    grouped = rest.get("enable_gqa", False)
    if not _fits(tensors, attn_mask, causal=is_causal, grouped=grouped):
        return _PLAIN.decompose(*tensors, *options, **rest)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -math.inf).to(query.dtype)
        attn_mask = attn_mask[(None,) * (4 - attn_mask.dim())]
    options = attn_mask, dropout_p, is_causal
    return _FORWARD(*tensors, *options, scale=rest.get("scale"))[0]


def _fits(tensors, mask, *, causal, grouped):
    """Whether CUDA would have one kernel for this (roughly, as sdp_utils.cpp asks)."""
    query, key, value = tensors
    given = tensors if mask is None else (*tensors, mask)
    if any(type(tensor) is not VirtualTensor for tensor in given):
        return False  # torch.func has tensors around ours
    if len({tensor.device for tensor in given}) > 1 or not query.numel() * key.numel():
        return False
    if len({(t.dim(), t.dtype, t.shape[0]) for t in tensors}) > 1 or query.dim() != 4:
        return False
    if key.shape[1:3] != value.shape[1:3] or query.shape[3] != key.shape[3]:
        return False
    if query.shape[1] != key.shape[1] and not (
        grouped and query.shape[1] % key.shape[1] == 0
    ):
        return False
    if mask is not None and (causal or mask.dim() > 4):
        return False
    return _flash(tensors, mask) or _efficient(tensors, grouped)


def _ampere(tensor):
    # the first generation with TF32 is the first that FlashAttention runs on
    return "tfloat32" in tensor.block.place.gpu.flops


def _flash(tensors, mask):
    query, _, value = tensors
    return (
        torch.backends.cuda.flash_sdp_enabled()
        and mask is None
        and query.dtype in (torch.float16, torch.bfloat16)
        and _ampere(query)
        and query.shape[3] == value.shape[3] <= 256
    )


def _efficient(tensors, grouped):
    query, _, value = tensors
    dtypes = [torch.float32, torch.float16]
    if _ampere(query):
        dtypes.append(torch.bfloat16)
    wide = (t.shape[3] * t.itemsize % 16 == 0 for t in (query, value))
    return (
        torch.backends.cuda.mem_efficient_sdp_enabled()
        and not grouped
        and query.dtype in dtypes
        and all(wide)
    )


def _parts(query, key):
    """Slices of batch and heads, so many that their scores may exist at once."""
    batch, heads, rows = query.shape[:3]
    few = max(1, _SCORES // (rows * key.shape[2]))
    each, step = min(few, heads), max(1, few // heads)
    for first in range(0, batch, step):
        for head in range(0, heads, each):
            yield slice(first, first + step), slice(head, head + each)


# the steps are those of PyTorch's plain attention, and so are the last digits
def _scaled(query, key, scale):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    half = abs(scale) ** 0.5
    halves = math.copysign(half, scale), half
    return query * halves[0], key.mT * half, halves


def _weights(scores, bias, causal):
    """Return the scores after their softmax; and what it divides by, as a logarithm."""
    if bias is not None:
        scores += bias
    if causal:
        kept = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores.masked_fill_(kept.triu_(1), -math.inf)
    weights, sums = scores.softmax(-1), scores.logsumexp(-1)
    if bias is not None:
        # a row whose scores are all masked gives zeros
        weights.masked_fill_((sums == -math.inf).unsqueeze(-1), 0)
    return weights, sums


def _dropout(like, p, random):
    """Return what dropout multiplies with, drawn as on the CPU."""
    return torch.empty_like(like).bernoulli_(1 - p, generator=random).div_(1 - p)


def _cut(bias, part):
    """Cut what of a bias belongs to a part; it may have one batch or head for all."""
    if bias is None:
        return None
    sizes = bias.shape[:2]
    return bias[tuple(own if n > 1 else slice(None) for own, n in zip(part, sizes))]


def _heads(tensor, query):
    """Keys or values for each head of the query, in float32 as the kernels sum."""
    return tensor.float().repeat_interleave(query.shape[1] // tensor.shape[1], 1)


def _forward(query, key, value, *rest, scale=None):
    bias, p, causal = (*rest, *_DEFAULTS[len(rest) :])[:3]
    batch, heads, rows, _ = query.shape
    # heads lie side by side, as CUDA's kernels write them: no copy joins them later
    out = query.new_empty(batch, rows, heads, value.shape[3]).transpose(1, 2)
    sums = query.new_empty(batch, heads, rows, dtype=torch.float32)
    seed = torch.get_rng_state() if p else torch.zeros((), dtype=torch.int64)
    keys, values = _heads(key, query), _heads(value, query)
    for part in _parts(query, key):
        scaled, turned, _ = _scaled(query[part].float(), keys[part], scale)
        weights, sums[part] = _weights(scaled @ turned, _cut(bias, part), causal)
        if p:
            weights *= _dropout(weights, p, None)
        out[part] = (weights @ values[part]).to(out.dtype)
    # None is for sequences of several lengths, the rest for a GPU's random numbers
    lengths = None, None, rows, key.shape[2]
    return out, sums, *lengths, seed, torch.zeros((), dtype=torch.int64), None


def _backward(grad, query, key, value, bias, wanted, out, sums, *rest, scale=None):  # noqa: PLR0917
    *_, p, causal, seed, _ = rest
    keys, values = _heads(key, query), _heads(value, query)
    grads = [torch.empty_like(t, dtype=torch.float32) for t in (query, keys, values)]
    bias_grad = torch.zeros_like(bias, dtype=torch.float32) if wanted[3] else None
    random = torch.Generator().set_state(seed) if p else None
    for part in _parts(query, key):
        scaled, turned, halves = _scaled(query[part].float(), keys[part], scale)
        weights, _ = _weights(scaled @ turned, _cut(bias, part), causal)
        above = grad[part].float()
        slope = above @ values[part].mT
        dropped = weights
        if p:
            noise = _dropout(weights, p, random)
            dropped, slope = weights * noise, slope.mul_(noise)
        grads[2][part] = dropped.mT @ above
        slope = aten._softmax_backward_data(slope, weights, -1, torch.float32)
        grads[0][part] = (slope @ turned.mT).mul_(halves[0])
        grads[1][part] = (scaled.mT @ slope).mul_(halves[1]).mT
        if wanted[3]:
            target = _cut(bias_grad, part)
            target += slope.sum_to_size(target.shape)
    groups = key.shape[1], -1
    grads[1:] = [each.unflatten(1, groups).sum(2) for each in grads[1:]]
    # in memory as the tensors are that they belong to, as CUDA's kernels write them
    given = query, key, value
    slopes = [torch.empty_like(t).copy_(g) for t, g in zip(given, grads, strict=True)]
    return *slopes, bias_grad if bias_grad is None else bias_grad.to(bias.dtype)


def register_attention(kernels: torch.library.Library) -> None:
    """Register the operators of one kernel for the CPU's tensors, and their choice."""
    kernels.impl("scaled_dot_product_attention", attention, "AutogradPrivateUse1")
    register_kernels(kernels, "CPU")
    SPECIAL[aten.scaled_dot_product_attention] = _without_autograd


def register_kernels(kernels: torch.library.Library, key: str) -> None:
    """Register the operators of one kernel for tensors with a dispatch key."""
    # torch has kernels of its own for shapes, and before 2.12 asks whether it may go
    kernels.impl(_FORWARD.__name__, _forward, key, allow_override=True)
    kernels.impl(_BACKWARD.__name__, _backward, key, allow_override=True)


def _without_autograd(func, args, kwargs):
    return attention(*args, **kwargs)


def _count(*shapes, out_shape=None, **_):
    """FLOPs of the two products, as torch.utils.flop_counter has them."""
    return sdpa_flop_count(*_repeated(shapes[:3]))


def _count_backward(*shapes, out_shape=None, **_):
    grad, *rest = shapes[:4]
    return sdpa_backward_flop_count(grad, *_repeated(rest))


def _repeated(shapes):
    """Shapes in which keys and values have the heads of the query."""
    # which grouped attention computes with; before 2.12 torch does not count it
    batch, heads, *_ = shapes[0]
    return [(batch, heads, *shape[2:]) for shape in shapes]


register_flop_formula(_FORWARD)(_count)
register_flop_formula(_BACKWARD)(_count_backward)
