"""Real traces: the profiler's file, the course's timeline, the allocator's snapshot."""

import gzip
import json
import pickle
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

import course_lib as cl
from benchmarks.gpu.keeping import Findings
from benchmarks.gpu.truth import convolutions, wide
from course_lib.accelerators.training_phases import watch_phases
from course_lib.tracing.profiler import note_phase


def main(out: str) -> None:
    """Record each in its own attempt."""
    findings = Findings(out, "traces")
    device = "cuda" if torch.cuda.device_count() else "cpu"
    if device == "cpu":
        print("no GPU here: traces of the CPU, to see that it runs")
    parts = [of_the_course, of_the_profiler, snapshot]
    if torch.cuda.device_count() > 1:
        parts += [of_copies, of_several_by_the_profiler]
    for part in parts:
        with findings.attempt(part.__name__):
            part(findings, device, out)


def steps_of(device, batch=512):
    """A training step of lesson 01's network."""
    model = wide().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.rand(batch, 64), torch.randint(10, (batch,))

    def step():
        optimizer.zero_grad()
        cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()

    return step


def of_the_course(findings, device, out):
    """`cl.trace` on one GPU: events, transfers, memory."""
    [place] = cl.devices(1)
    step = steps_of(place)
    step()
    with cl.trace() as trace:
        for _ in range(2):
            step()
    keep_events(findings, "trace", trace)
    findings.keep("moved", {str(k): v for k, v in trace.moved().items()})
    findings.keep("span", trace.span)
    findings.keep(
        "phases", {k: trace.time(k, "compute") for k in map(str, trace.ranks)}
    )
    findings.keep("memory rows", len(getattr(trace, "memory", ()) or ()))
    for name, draw in {
        "timeline": lambda: cl.plot_timeline(trace),
        "memory": lambda: cl.plot_memory_over_time(trace),
        "transfers": lambda: cl.plot_transfers(trace),
    }.items():
        with findings.attempt(f"plot {name}"):
            draw()
            findings.keep(f"plot {name}", "drawn")


def keep_events(findings, name, trace):
    """A trace of the course as plain data."""
    names = ("rank", "kind", "name", "start", "stop", "bytes")
    events = [{n: getattr(e, n, None) for n in names} for e in trace.events]
    findings.keep(f"{name}: events", len(events))
    findings.keep(name, {"source": trace.source, "events": events})


def of_copies(findings, device, out):
    """Lesson 03's step on all GPUs, and a copy from one to another."""
    places = cl.devices(torch.cuda.device_count())
    model = torch.nn.DataParallel(wide().to(places[0]), device_ids=places)
    x = torch.rand(512, 64)

    def step():
        model(x.to(places[0])).square().mean().backward()
        model.zero_grad()

    step()
    with cl.trace() as trace:
        step()
        torch.ones(2**24, device=places[0]).to(places[1])
    keep_events(findings, "trace of several", trace)
    moved = {str(ways): size for ways, size in trace.moved().items()}
    findings.keep("moved between several", moved)


def of_several_by_the_profiler(findings, device, out):
    """The same two as Perfetto reads them: names of copies and of NCCL's kernels.

    tests/built_traces.py made up such rows: these can take their place.
    """
    replicas = torch.nn.DataParallel(wide().to("cuda:0"))
    x = torch.rand(512, 64, device="cuda:0")
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    replicas(x).square().mean().backward()
    with torch.profiler.profile(activities=kinds) as profiler, watch_phases(note_phase):
        replicas(x).square().mean().backward()
        x.to("cuda:1")
        torch.cuda.synchronize()
    keep_profile(profiler, Path(out, "several.json.gz"))


def keep_profile(profiler, place: Path) -> list[dict]:
    """Write the profiler's file, compressed; its events."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        text = path.read_bytes()
    place.write_bytes(gzip.compress(text))
    return json.loads(text)["traceEvents"]


def of_the_profiler(findings, device, out):
    """Two steps of a small network, as Perfetto reads it."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    step = steps_of(device)
    for _ in range(3):
        step()
    with torch.profiler.profile(activities=kinds, record_shapes=True) as profiler:
        for _ in range(2):
            step()
            profiler.step()
        if device == "cuda":
            torch.cuda.synchronize()
    rows = keep_profile(profiler, Path(out, "profile.json.gz"))
    kinds = {}
    for row in rows:
        kinds.setdefault(row.get("cat"), row)
    findings.keep("one row of each kind", kinds)
    sort = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    table = profiler.key_averages().table(sort_by=sort, row_limit=12)
    findings.keep("table", table)


def snapshot(findings, device, out):
    """The allocator's own history of a step of lesson 02's network."""
    if device == "cpu":
        return
    model = convolutions().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.rand(64, 1, 8, 8, device=device)
    labels = torch.randint(10, (64,), device=device)
    torch.cuda.memory._record_memory_history(context=None)
    for _ in range(2):
        cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    found = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    with gzip.open(Path(out, "snapshot.pickle.gz"), "wb") as file:
        pickle.dump(found, file)
    rows = found["device_traces"][0]
    findings.keep("allocator rows", len(rows))
    findings.keep("actions", sorted({row["action"] for row in rows}))
    findings.keep("first rows", rows[:6])
    findings.keep("statistics", torch.cuda.memory_summary())


if __name__ == "__main__":
    main(sys.argv[1])
