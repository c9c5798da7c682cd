"""Pinned memory: `tensor.pin_memory()`, and `pin_memory=True` in a DataLoader.

A copy with `non_blocking=True` between pinned memory and a virtual GPU does not hold up
the host; any other does, until it has ended. Left out: nothing is locked in memory, it
takes the host no time, and a copy from pageable memory is as fast, which on CUDA it is
not (https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html).
"""

from __future__ import annotations


def mark_pinned(tensor):
    """Let the memory of a tensor of the CPU count as pinned, and return it."""
    # PyTorch keeps the Python object of a storage as long as the storage itself
    tensor.untyped_storage().pinned = True
    return tensor


def pin(tensor, device=None):
    """Return a copy that counts as pinned."""
    return mark_pinned(tensor.clone())


def is_pinned(tensor, device=None) -> bool:
    """Return whether the memory of a tensor of the CPU counts as pinned."""
    return getattr(tensor.untyped_storage(), "pinned", False)


def refuse_pinning(func, args, kwargs):
    """Raise what CUDA says of its own tensors."""
    raise RuntimeError(
        f"cannot pin a tensor of {args[0].device}: only tensors of the CPU can be"
        " pinned."
    )
