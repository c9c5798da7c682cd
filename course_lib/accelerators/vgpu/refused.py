"""Operators that virtual GPUs refuse in a sentence: their results are no dense tensors.

Sparse results are refused where their memory is asked for, in `tensors.py`.
"""

from __future__ import annotations

import torch

aten = torch.ops.aten
_KINDS = {
    "nested tensors": (
        aten._nested_tensor_from_mask,
        aten._nested_tensor_from_tensor_list,
        aten._nested_view_from_buffer,
        aten._nested_view_from_jagged,
    ),
    "quantized tensors": (
        aten.quantize_per_channel,
        aten.quantize_per_tensor,
        aten.quantize_per_tensor_dynamic,
    ),
}


def _refusal(kind):
    def refuse(*_, **__):
        raise NotImplementedError(
            f"virtual GPUs hold dense tensors only: keep {kind} on the CPU."
        )

    return refuse


def _no(func, args, kwargs):
    # nn.TransformerEncoder asks before it makes a nested tensor of a padded batch: it
    # then works on all of the batch, as in training
    return False


REFUSED = {op: _refusal(kind) for kind, ops in _KINDS.items() for op in ops}
REFUSED[aten._nested_tensor_from_mask_left_aligned] = _no


# what moves from the CPU, by the dispatch key of its kind
MOVES = {
    "NestedTensorPrivateUse1": ("_to_copy", _refusal("nested tensors")),
    "QuantizedPrivateUse1": ("empty_quantized", _refusal("quantized tensors")),
}
