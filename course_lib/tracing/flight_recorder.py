"""The collective calls that a rank has made, from PyTorch's flight recorder."""

import json
import math
import re
from typing import NamedTuple

# fmt: off
_TYPES = {
    "Float": "f32", "Double": "f64", "Half": "f16", "BFloat16": "bf16",
    "Long": "i64", "Int": "i32", "Short": "i16", "Char": "i8", "Byte": "u8",
    "Bool": "b8", "ComplexFloat": "c64", "ComplexDouble": "c128",
}
# fmt: on
# all ranks must pass as many numbers of one type; nccl gathers unequal ones, too
_SAME_SIZE = ("all_reduce", "broadcast", "reduce")
_GLOO_SAME_SIZE = ("all_gather", "gather", "scatter")
_LIMIT = 1800.0  # seconds, unless a group asks for others


class Call(NamedTuple):
    """One collective: its number in its group, name, what it carries, is it done?

    If it is not done after `limit` seconds, PyTorch gives up. `start` is when it was
    called, in ns of the machine's clock. Of groups of one name that followed each
    other, `generation` 0 is the first.
    """

    group: str
    number: int
    name: str
    carries: str  # f32[8, 4]
    done: bool
    limit: float = _LIMIT
    start: int = 0
    bytes: int = 0
    backend: str = "gloo"
    generation: int = 0

    def __str__(self):
        return f"{self.name} of {self.carries}" if self.carries else self.name

    def fits(self, other: "Call") -> bool:
        """Return whether the two can be one collective on two ranks."""
        alike = _SAME_SIZE + (_GLOO_SAME_SIZE if self.backend == "gloo" else ())
        sizes = self.name not in alike or _numbers(self) == _numbers(other)
        return self.name == other.name and sizes


def _numbers(call):
    """How many numbers of which type a call carries, of any shape."""
    tensors = re.findall(r"(\w+)\[([\d, ]*)\]", call.carries)
    return [
        (kind, math.prod(map(int, size.split(","))) if size else 1)
        for kind, size in tensors
    ]


def entries() -> list[dict]:
    """Return what PyTorch's flight recorders hold: gloo's, and nccl's where it is."""
    import torch

    library = getattr(torch._C, "_distributed_c10d", None)
    names = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
    dumps = [getattr(library, name) for name in names if hasattr(library, name)]
    traces = (json.loads(dump(True, False)) for dump in dumps)
    return [entry for trace in traces for entry in trace.get("entries", [])]


def read_calls(entries: list[dict]) -> list[Call]:
    """Return the flight recorder's entries as calls, in order.

    A group that is destroyed and made anew keeps its name and counts from one again;
    its `pg_id` tells it from the first. Numbers do not: `monitored_barrier` takes some
    without an entry, and so may be the first call of a group.
    """
    generations, calls = {}, []
    for entry in sorted(entries, key=lambda entry: entry["record_id"]):
        if entry.get("is_p2p"):
            continue
        backend, _, name = entry["profiling_name"].partition(":")
        group = entry["process_group"][0]
        known = generations.setdefault((backend, group), {})
        call = Call(
            group,
            entry["collective_seq_id"],
            name,
            ", ".join(f"{kind}{size}" for kind, size in _own(entry, name)),
            entry["retired"],
            entry.get("timeout_ms", 1000 * _LIMIT) / 1000,
            start=entry["time_created_ns"],
            bytes=sum(_width(kind) * math.prod(size) for kind, size in _inputs(entry)),
            backend=backend,
            generation=known.setdefault(entry["pg_id"], len(known)),
        )
        calls.append(call)
    return calls


def newest(calls: list[Call]) -> list[Call]:
    """Return the calls of the last one of groups of one name."""
    last = {(call.backend, call.group): call.generation for call in calls}
    return [call for call in calls if call.generation == last[call.backend, call.group]]


def _inputs(entry, side="input"):
    """Short form of the dtype and shape of each tensor that is passed."""
    sizes, kinds = entry[f"{side}_sizes"], entry[f"{side}_dtypes"]
    for size, kind in zip(sizes, kinds, strict=False):
        yield _TYPES.get(kind, kind), size


def _own(entry, name):
    """The tensors that each rank passes: to a scatter that which receives."""
    return _inputs(entry, "output" if name == "scatter" else "input")


def _width(kind):
    """Bytes of a number: 4 for `f32`, and for a type without a short form."""
    bits = re.fullmatch(r"[a-z]+(\d+)", kind)
    return int(bits[1]) // 8 if bits else 4
