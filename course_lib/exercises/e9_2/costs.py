"""What an optimizer costs a rank: the bytes that it sends, and those that it keeps."""

import gc
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# by operator, which argument holds what travels: as a rule the tensors of all ranks
_TWICE = {  # all of it goes round a ring of ranks twice, less one part of n
    "c10d::allreduce_": 0,
    "c10d::allreduce_coalesced_": 0,
    "_c10d_functional::all_reduce": 0,
    "_c10d_functional::all_reduce_": 0,
    "_c10d_functional::all_reduce_coalesced": 0,
    "_c10d_functional::all_reduce_coalesced_": 0,
}
_ONCE = {  # once; where ranks do not send the same, the mean over them
    "c10d::reduce_scatter_": 1,
    "c10d::_reduce_scatter_base_": 1,
    "c10d::reduce_scatter_tensor_coalesced_": 1,
    "c10d::allgather_": 0,
    "c10d::_allgather_base_": 0,
    "c10d::allgather_coalesced_": 0,
    "c10d::allgather_into_tensor_coalesced_": 0,
    "c10d::alltoall_": 1,
    "c10d::alltoall_base_": 1,
    "c10d::broadcast_": 0,
    "c10d::reduce_": 0,
    "c10d::gather_": 1,
    "c10d::gather_into_tensor_": 1,
    "c10d::scatter_": 1,
    "_c10d_functional::reduce_scatter_tensor": 0,
    "_c10d_functional::reduce_scatter_tensor_coalesced": 0,
    "_c10d_functional::reduce_scatter_tensor_out": 0,
    "_c10d_functional::all_to_all_single": 0,
    "_c10d_functional::broadcast": 0,
    "_c10d_functional::broadcast_": 0,
    "_dtensor::shard_dim_alltoall": 0,
}
_OWN = {  # the own part of a rank, to each of the others
    "_c10d_functional::all_gather_into_tensor": 0,
    "_c10d_functional::all_gather_into_tensor_coalesced": 0,
    "_c10d_functional::all_gather_into_tensor_out": 0,
}
_DIRECT = {"c10d::send": 0, "_c10d_functional::isend": 0}
# they become plain tensors and collectives, which come here again
_UNPACKED = {"DTensor", "AsyncCollectiveTensor"}


class StepCosts(TorchDispatchMode):
    """Counts in blocks what this rank hands to collectives, and what stays alive.

    A collective counts as a ring sends it, whatever gloo does, or NCCL. A group of
    fewer ranks counts as one of all.
    """

    def __init__(self, ranks: int):
        super().__init__()
        self._ranks = ranks
        self._sent: list[float] = []
        self._storages: list[weakref.ref] = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(kind.__name__ in _UNPACKED for kind in types):
            return NotImplemented
        if bytes_sent := ring_bytes(operator.name(), args, self._ranks):
            self._sent.append(bytes_sent)
        result = operator(*args, **(kwargs or {}))
        own = (one for one in _tensors(result) if type(one) is torch.Tensor)
        self._storages += [weakref.ref(one.untyped_storage()) for one in own]
        return result

    def take_sent(self) -> float:
        """Return the bytes that were sent since this was last asked."""
        sent = sum(self._sent)
        self._sent.clear()
        return sent

    def held(self, weights: Sequence[torch.Tensor]) -> int:
        """Return the bytes alive that blocks have made, beside weights and `.grad`.

        A storage counts as a whole, also where only a view of a part is left of it.
        """
        gc.collect()
        found = (storage() for storage in self._storages)
        alive = {id(storage): storage for storage in found if storage is not None}
        given = [*weights, *(p.grad for p in weights if p.grad is not None)]
        needed: Counter[int] = Counter()
        for tensor in given:
            storage = tensor.untyped_storage()
            alive[id(storage)] = storage
            needed[id(storage)] += tensor.nbytes
        sizes = ((one.nbytes(), needed[place]) for place, one in alive.items())
        return sum(max(0, size - own) for size, own in sizes)


def ring_bytes(name: str, args: Sequence, ranks: int) -> float:
    """Return what an operator of this name sends from each rank; 0 if nothing."""
    shares = (
        (_TWICE, 2 * (ranks - 1) / ranks),
        (_ONCE, (ranks - 1) / ranks),
        (_OWN, ranks - 1),
        (_DIRECT, 1),
    )
    for places, share in shares:
        if name in places:
            return share * sum(one.nbytes for one in _tensors(args[places[name]]))
    return 0


def _tensors(value) -> Iterator[torch.Tensor]:
    """The tensors in lists in lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
