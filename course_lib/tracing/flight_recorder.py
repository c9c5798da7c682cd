"""The collective calls that a rank has made, from PyTorch's flight recorder."""

import json
from typing import NamedTuple

_TYPES = {
    "Float": "f32",
    "Double": "f64",
    "Half": "f16",
    "BFloat16": "bf16",
    "Long": "i64",
    "Int": "i32",
    "Short": "i16",
    "Char": "i8",
    "Byte": "u8",
    "Bool": "b8",
}
# all ranks must pass as many elements; to a scatter only one of them passes any
_SAME_SIZE = ("all_reduce", "broadcast", "reduce")
_LIMIT = 1800.0  # seconds, unless a group asks for others


class Call(NamedTuple):
    """One collective: its number in its group, name, what it carries, is it done?

    If it is not done after `limit` seconds, PyTorch gives up.
    """

    group: str
    number: int
    name: str
    carries: str  # f32[8, 4]
    done: bool
    limit: float = _LIMIT

    def __str__(self):
        return f"{self.name} of {self.carries}" if self.carries else self.name

    def fits(self, other: "Call") -> bool:
        """True if the two can be one collective on two ranks."""
        sizes = self.name not in _SAME_SIZE or self.carries == other.carries
        return self.name == other.name and sizes


def entries() -> list[dict]:
    """What PyTorch's flight recorders hold: gloo's, and nccl's where it is."""
    import torch

    library = getattr(torch._C, "_distributed_c10d", None)
    names = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
    dumps = [getattr(library, name) for name in names if hasattr(library, name)]
    found = (json.loads(dump(True, False)) for dump in dumps)
    return [entry for one in found for entry in one.get("entries", [])]


def read(found: list[dict]) -> list[Call]:
    """The flight recorder's entries as calls; of a group made anew the new ones."""
    calls = {}
    for entry in sorted(found, key=lambda entry: entry["record_id"]):
        if entry.get("is_p2p"):
            continue
        group = entry["process_group"][0]
        number = entry["collective_seq_id"]
        if number == 1:
            calls[group] = []
        name = entry["profiling_name"].partition(":")[2]
        limit = entry.get("timeout_ms", 1000 * _LIMIT) / 1000
        call = Call(group, number, name, _carries(entry), entry["retired"], limit)
        calls.setdefault(group, []).append(call)
    return [call for group in calls.values() for call in group]


def _carries(entry):
    tensors = zip(entry["input_sizes"], entry["input_dtypes"], strict=False)
    return ", ".join(f"{_TYPES.get(kind, kind)}{size}" for size, kind in tensors)
