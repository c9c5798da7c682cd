"""Cells of LSTM and GRU, in plain operators: CUDA has a kernel for each, the CPU none.

PyTorch asks any accelerator for these kernels. Taken apart as on the CPU, autograd and
its transforms see sums and products that they know.
"""

from __future__ import annotations

import torch

from course_lib.accelerators.vgpu.operators import SPECIAL

aten = torch.ops.aten


def lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    """Return the hidden state and the cell, each (batch, width), after one step.

    Both `gates`, (batch, 4 width), are products with the weights of one layer; the
    third result is what CUDA's kernel would keep for its backward, and nobody reads it.
    """
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    enter, forget, new, leave = gates.chunk(4, 1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell, gates.new_empty(0)


def gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    """Return the hidden state, (batch, width), after one step.

    Both `gates` are (batch, 3 width); the second result is as that of `lstm_cell`.
    """
    given = _with_bias(input_gates, input_bias).chunk(3, 1)
    own = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = ((x + y).sigmoid() for x, y in zip(given[:2], own[:2]))
    new = (given[2] + reset * own[2]).tanh()
    return new + update * (hidden - new), hidden.new_empty(0)


def _with_bias(gates, bias):
    return gates if bias is None else gates + bias


_CELLS = {"_thnn_fused_lstm_cell": lstm_cell, "_thnn_fused_gru_cell": gru_cell}


def register_cells(kernels: torch.library.Library) -> None:
    """Register the cells for virtual GPUs."""
    for name, cell in _CELLS.items():
        kernels.impl(name, cell, "AutogradPrivateUse1")
        SPECIAL[getattr(aten, name)] = _without_autograd(cell)


def _without_autograd(cell):
    return lambda func, args, kwargs: cell(*args, **kwargs)
