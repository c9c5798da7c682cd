"""A block on real GPUs, as PyTorch's profiler and its memory history saw it.

The profiler's Chrome trace tells for each kernel and copy the device, the bytes, and by
`correlation` the call that launched it: https://github.com/pytorch/kineto
(`libkineto/src/CuptiActivity.h`). What NCCL moves it shows as kernels, without bytes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import torch

from course_lib.accelerators.memory import Change, Transfer
from course_lib.accelerators.training_phases import phase_names, watch_phases
from course_lib.tracing.events import Event, Trace, both_ends
from course_lib.tracing.profiler import (
    RUNS,
    Span,
    collective_name,
    note_phase,
    noted_phases,
    within,
)

_KERNELS = ("kernel", "gpu_memset")


@contextmanager
def profile(finish: Callable[[Trace], None]) -> Iterator[None]:
    """Profile the block on all GPUs, and give its trace to `finish` at the end."""
    kinds = torch.profiler.ProfilerActivity
    profiler = torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA])
    _synchronize()
    held = _held()
    torch.cuda.memory._record_memory_history(context=None)
    try:
        with profiler, watch_phases(note_phase):
            try:
                yield
            finally:
                _synchronize()
    finally:
        history = torch.cuda.memory._snapshot()["device_traces"]
        torch.cuda.memory._record_memory_history(enabled=None)
        events, transfers = read_chrome_trace(_chrome(profiler))
        memory = held + list(memory_changes(history))
        source = source_of(events, torch.cuda.get_device_name(0))
        finish(Trace(tuple(events), source, tuple(transfers), tuple(memory)))


def _synchronize() -> None:
    for index in _gpus():
        torch.cuda.synchronize(index)


def _chrome(profiler) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


def _held() -> list[Change]:
    counts = ((d, torch.cuda.memory_allocated(d)) for d in _gpus())
    return [Change(0.0, f"cuda:{d}", "activations", size) for d, size in counts if size]


def _gpus() -> range:
    return range(torch.cuda.device_count())


def read_chrome_trace(rows: Iterable[Mapping]) -> tuple[list[Event], list[Transfer]]:
    """Return the events per GPU and the transfers, of the rows of a Chrome trace.

    Times in seconds, zero at the first start of a kernel or copy.
    """
    rows = [row for row in rows if row.get("ph") == "X"]
    kernels = [row for row in rows if row.get("cat") in (*_KERNELS, "gpu_memcpy")]
    zero = min((row["ts"] for row in kernels), default=0)
    # on the host: the same notes stand over the kernels, where they overlap
    notes = [row for row in rows if row.get("cat") == "user_annotation"]
    spans, launches = noted_phases(map(_span, notes)), _launches(rows)
    computing, events, transfers = [], [], []
    for row in kernels:
        start = (row["ts"] - zero) / 1e6
        times, args = (start, start + row["dur"] / 1e6), row["args"]
        copy = _ends(row) if row["cat"] == "gpu_memcpy" else None
        if copy:
            moved = Transfer("copy", *copy, args.get("bytes", 0), *times)
            transfers.append(moved)
            events += both_ends(moved)
        elif row["name"].startswith(RUNS):
            name = collective_name(row["name"])
            events.append(Event(_device(args), "communicate", name, *times))
        else:
            launch = launches.get(args.get("correlation"), row["ts"])
            computing.append((_device(args), within(spans, launch), times))
    names = phase_names((device, phase) for device, phase, _ in computing)
    for device, phase, times in computing:
        events.append(Event(device, "compute", names[device, phase], *times))
    return sorted(events, key=attrgetter("start")), transfers


def _ends(row) -> tuple[str, str] | None:
    """Where a copy goes from and to; None if both are the same GPU."""
    args, name = row["args"], row["name"]
    if "HtoD" in name:
        return "cpu", _device(args)
    if "DtoH" in name:
        return _device(args), "cpu"
    if "fromDevice" in args and args["fromDevice"] != args["toDevice"]:
        return f"cuda:{args['fromDevice']}", f"cuda:{args['toDevice']}"
    return None


def _device(args) -> str:
    """Where a kernel or copy ran; a copy from GPU to GPU has no "device"."""
    return f"cuda:{args['device'] if 'device' in args else args['inDevice']}"


def source_of(events: Iterable[Event], gpu: str) -> str:
    """Say how many GPUs did something, and what the profiler does not tell."""
    used = {event.rank for event in events}
    sent = (event.name for event in events if event.kind == "communicate")
    nccl = not all(name.startswith("copy ") for name in sent)
    unknown = "; bytes that NCCL moved are not told" if nccl else ""
    return f"measured: {len(used)} × {gpu}{unknown}"


def _span(row) -> Span:
    return Span(row["name"], row["ts"], row["ts"] + row["dur"])


def _launches(rows) -> dict[int, float]:
    """When the host launched what has this correlation."""
    runtime = (row for row in rows if row.get("cat") in ("cuda_runtime", "cuda_driver"))
    return {row["args"].get("correlation"): row["ts"] for row in runtime}


def memory_changes(history: list[list[Mapping]]) -> Iterator[Change]:
    """Yield what was taken and freed, of a list of the allocator's rows per GPU.

    The allocator does not know kinds: all count as activations.
    """
    times = [row["time_us"] for rows in history for row in rows]
    zero = min(times, default=0)
    signs = {"alloc": 1, "free_completed": -1}
    for index, rows in enumerate(history):
        for row in rows:
            if row["action"] in signs:
                size = signs[row["action"]] * row["size"]
                time = (row["time_us"] - zero) / 1e6
                yield Change(time, f"cuda:{index}", "activations", size)
