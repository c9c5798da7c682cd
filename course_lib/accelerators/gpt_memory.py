"""Bytes that a small GPT (course_lib/gpt.py) keeps from forward to backward.

By the method of V. Korthikanti et al., 2022, Reducing Activation Recomputation in Large
Transformer Models, section 4. Their layer keeps s·b·h·(34 + 5·a·s/h) bytes: 16 bits
throughout, masks of dropout, scores of attention (5·a·s/h of it). Ours differs: no
dropout, and attention in one kernel keeps no scores (s·b·h·64 bytes in float32); under
autocast the stream between layers stays float32, and each weight is copied in 16 bits.

All is counted when forward and its autocast block have ended, before backward begins.
`bits` is 32 for float32, 16 for autocast to bfloat16 or float16. `length` is in tokens.
Left out are weights, gradients, what the caller holds (tokens, targets) and single
numbers. Held against virtual GPUs and an H200 in tests/test_gpt.py.
"""

from __future__ import annotations


def kept(
    batch: int, length: int, width: int, heads: int, *, bits: int = 32
) -> dict[str, int]:
    """Return bytes by what a layer keeps, in the order of forward.

    Its input is in; its output is not, for it is the next layer's input. Copies of
    weights are `cast_weights`.
    """
    tokens = batch * length
    stream, one = 4 * tokens * width, bits // 8 * tokens * width
    return {
        "input": stream,
        "first norm": one,
        "query, key, value": 3 * one,
        "attention": one,
        "input of the second norm": stream,
        "second norm": one,
        "first MLP layer": 4 * one,
        "GELU": 4 * one,
        # of both norms the mean and the deviation of each token; of attention the
        # logarithm of a sum of exponentials for each token and head: float32
        "means, deviations, sums": 4 * tokens * (4 + heads),
    }


def layer(
    batch: int,
    length: int,
    width: int,
    heads: int,
    *,
    bits: int = 32,
    plain: bool = False,
) -> int:
    """Return the bytes that a layer keeps, copies of weights left out.

    `plain` is attention by hand, in single operators, which keeps its weights: length x
    length for each head, twice under autocast, whose softmax is float32. (`plain` of
    `gpt_peak` is SDPBackend.MATH, which is float32 throughout.)
    """
    count = sum(kept(batch, length, width, heads, bits=bits).values())
    if plain:
        pairs = batch * heads * length**2
        count += pairs * (4 if bits == 32 else 6) + length**2  # a mask, in bytes
        count -= 4 * batch * length * heads  # only one kernel needs these sums
    return count


def cast_weights(width: int) -> int:
    """Return the bytes of the 16-bit copies of a layer's weights: 12·width² numbers.

    Biases are copied, too, but their copies end with the autocast block.
    """
    return 2 * 12 * width**2


def recomputed(batch: int, length: int, width: int) -> int:
    """Return the bytes that a layer keeps whose forward backward runs again: its input.

    It is float32 also under autocast, whose copies of weights end with its block here.
    """
    return 4 * batch * length * width


def ends(
    batch: int, length: int, width: int, *, bits: int = 32, words: int = 96
) -> dict[str, int]:
    """Return bytes by what a GPT keeps around its layers, loss included.

    cross_entropy keeps the logarithms of the softmax, and no logits. Under autocast it
    makes them in 16 bits and keeps them twice, for the rest of it is float32. Who holds
    the logits, too, holds bits/8 · batch · length · words bytes more.
    """
    tokens = batch * length
    counts = {
        "places": 8 * length,  # whole numbers
        "input of the last norm": 4 * tokens * width,
        "last norm": bits // 8 * tokens * width,
        "means, deviations": 8 * tokens,
        "loss": (4 if bits == 32 else 6) * tokens * words,
    }
    if bits == 16:
        counts["copy of the head's weight"] = 2 * words * width
    return counts


def model(
    batch: int,
    length: int,
    width: int,
    heads: int,
    layers: int,
    *,
    bits: int = 32,
    plain: bool = False,
    recompute: int = 0,
    words: int = 96,
) -> int:
    """Return the bytes that a GPT keeps of a micro-batch, its loss included.

    `recompute` is how many of its `layers` backward runs again.
    """
    each = layer(batch, length, width, heads, bits=bits, plain=plain)
    if bits == 16:
        each += cast_weights(width)
    count = (layers - recompute) * each
    count += recompute * recomputed(batch, length, width)
    return count + sum(ends(batch, length, width, bits=bits, words=words).values())
