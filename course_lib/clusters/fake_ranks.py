"""One of 1,024 ranks, on a laptop: its collectives are counted, nothing travels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.display import number_table
from course_lib.errors import UsageError
from course_lib.text import many, size

_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "broadcast": "broadcast",
}
_SPACES = "c10d", "_c10d_functional"


class FakeCall(NamedTuple):
    """A collective: its name, the bytes of the whole tensor, the ranks of its group."""

    name: str
    bytes: int
    ranks: tuple[int, ...]


class FakeCalls(list):
    """The collectives of one rank, `FakeCall`s in their order."""

    def _rows(self):
        """Yield calls by name and ranks: how many, and their bytes together."""
        totals = {}
        for name, bytes, ranks in self:
            count, total = totals.get((name, len(ranks)), (0, 0))
            totals[name, len(ranks)] = count + 1, total + bytes
        for (name, ranks), (count, total) in totals.items():
            yield name, f"{ranks:,}", f"{count:,}", size(total)

    def __repr__(self):
        rows = (f"{n} {name} of {bytes}" for name, _, n, bytes in self._rows())
        return f"<FakeCalls {'; '.join(rows) or 'none'}>"

    def _repr_html_(self):
        heads = "ranks", "calls", "bytes"
        caption = "collectives of one rank, counted; nothing travelled"
        return number_table(heads, self._rows(), caption=caption)


@contextlib.contextmanager
def fake_ranks(world_size: int = 1024, *, rank: int = 0) -> Iterator[FakeCalls]:
    """Be one rank of `world_size` in this block; what it calls is counted.

    The group has PyTorch's backend "fake": collectives return at once, tensors stay as
    they are, so that no sum or weight is right. Shapes, bytes and groups are. Models
    made inside cannot be used outside. Errors: `UsageError` where a group exists.
    """
    # registers the backend
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise UsageError(
            f"cannot be one of {many(world_size, 'fake rank')}: this process has a"
            " group already. Call dist.destroy_process_group() before."
        )
    calls = FakeCalls()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        with _Counted(calls):
            yield calls
    finally:
        dist.destroy_process_group()


class _Done(dist._Work):
    """Work with the future that DDP asks for; that of the fake group is empty."""

    def __init__(self, tensors):
        super().__init__()
        self.future = torch.futures.Future()
        self.future.set_result(tensors)

    def wait(self, timeout=None):
        return True

    def get_future(self):
        return self.future


class _Counted(TorchDispatchMode):
    def __init__(self, calls):
        super().__init__()
        self.calls, self.works = calls, []

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        space, _, name = operator.name().partition("::")
        group = _group(args) if space in _SPACES else None
        if group is None:
            return result
        plain = name.replace("_", "")
        known = (new for start, new in _NAMES.items() if plain.startswith(start))
        results = result if isinstance(result, tuple) else (result,)
        # the largest that is given or returned is the whole tensor
        whole = max(map(_bytes, (*args, *results)))
        ranks = tuple(dist.get_process_group_ranks(group))
        self.calls.append(FakeCall(next(known, name.strip("_")), whole, ranks))
        if name == "allreduce_":
            self.works.append(_Done(result[0]))  # DDP holds no reference
            return result[0], self.works[-1].boxed()
        return result


def _group(args):
    """Return the group of a collective; None for what is none, such as a wait."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg._type()):
            return dist.ProcessGroup.unbox(arg)
    names = [arg for arg in args if isinstance(arg, str)]
    resolve = dist.distributed_c10d._resolve_process_group
    return resolve(names[-1]) if names else None


def _bytes(value):
    """Bytes of a tensor, or of all in a list."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0
