"""What an operator costs a GPU: floating-point operations, else bytes moved.

A model, by the roofline of Williams, Waterman and Patterson, "Roofline: An Insightful
Visual Performance Model for Multicore Architectures" (2009): kernels at their peaks.
"""

from __future__ import annotations

from torch import ops
from torch.utils.flop_counter import flop_registry

aten = ops.aten


# by hand, since the registry walks through all arguments, which takes longer than a
# small product itself
def _product(position):
    def count(args, kwargs, out):
        return 2 * out.numel() * args[position].shape[-1]

    return count


_PRODUCTS = {aten.mm: 0, aten.bmm: 0, aten.mv: 0, aten.addmm: 1, aten.baddbmm: 1}


def flops_of(func):
    """A function of (args, kwargs, out) that counts FLOPs; None if bytes decide."""
    packet = func.overloadpacket
    if packet in _PRODUCTS:
        return _product(_PRODUCTS[packet])
    count = flop_registry.get(packet)
    if count is None:
        return None
    return lambda args, kwargs, out: count(*args, **kwargs, out_val=out)
