"""Lessons where the machine has GPUs: which they take, and what they say of traces.

Here is no GPU: traces are those of one H100, recorded, and of several, built.
"""

import ast
import gzip
import json
import math
import re
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
from IPython.core.inputtransformer2 import TransformerManager
from torch import nn

import course_lib as cl
from course_lib import scenes
from course_lib.accelerators import selection
from course_lib.lessons.guess import Outcome
from course_lib.tracing.cuda import read_chrome_trace, source_of
from course_lib.tracing.events import Trace
from tests.built_traces import data_parallel, ddp
from tests.layers import ROOT

LESSONS, SOLUTIONS = (
    sorted((ROOT / name).glob("*.ipynb")) for name in ("notebooks", "solutions")
)
RECORDED = ROOT / "benchmarks/gpu/recorded/H100-profile.json.gz"
DEFINED = ast.FunctionDef, ast.ClassDef
NAMED = {"memory", "gpu", "link", "launch", "nccl"}  # these mean virtual GPUs


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@cache
def sources(path):
    """The code of a notebook by the ids of its cells, all of it Python."""
    cells = nbformat.read(path, as_version=4).cells
    plain = TransformerManager().transform_cell
    return {cell.id: plain(cell.source) for cell in cells if cell.cell_type == "code"}


def parsed(cell, stage):
    [path] = (ROOT / "notebooks").glob(f"{stage}_*.ipynb")
    return ast.parse(sources(path)[cell])


def define(names, cell, stage):
    """Run the functions of a cell alone."""
    body = [part for part in parsed(cell, stage).body if isinstance(part, DEFINED)]
    exec(compile(ast.Module(body, []), cell, "exec"), names)


def run(names, ids, stage):
    """Run cells of a lesson; what the last one shows."""
    for name in ids:
        tree = parsed(name, stage)
        *body, last = tree.body
        if not isinstance(last, ast.Expr):
            body, last = tree.body, None
        exec(compile(ast.Module(body, []), name, "exec"), names)
        shown = last and eval(compile(ast.Expression(last.value), name, "eval"), names)
    return shown


def seen(outcome):
    """What an answer cell says; it must be one of its options."""
    assert isinstance(outcome, Outcome)
    assert "not among the options" not in outcome.seen
    assert not re.search(r"\b(nan|inf|None)\b", outcome.seen)
    return outcome.seen


def traced(rows):
    events, transfers = read_chrome_trace(rows)
    return Trace(tuple(events), source_of(events, "H100"), tuple(transfers))


def recorded():
    return traced(json.loads(gzip.decompress(RECORDED.read_bytes()))["traceEvents"])


# --- which devices a lesson gets


class Machine:
    """A machine with so many GPUs, as `cl.devices` sees it."""

    def __init__(self, gpus, monkeypatch):
        self.count = 0
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(selection, "machine", self)
        monkeypatch.setattr(selection, "_touch", lambda index: None)
        monkeypatch.setattr(selection, "_real", lambda n: (["cuda"] * n, ""))
        monkeypatch.setattr(selection, "_virtual", self._virtual)
        monkeypatch.setattr(selection, "chosen", [])

    def _virtual(self, n, memory, **how):
        self.count = n
        return ["vgpu"] * n, ""


def calls_of_devices(path):
    """The calls of `cl.devices` in order, of the notebook's own process."""
    for source in sources(path).values():
        for node in ast.parse(source).body:
            if not isinstance(node, DEFINED):  # what ranks do
                yield from filter(is_devices, ast.walk(node))


def kinds_of_devices(path, gpus, monkeypatch):
    """What a notebook gets on a machine with so many GPUs, cell after cell."""
    Machine(gpus, monkeypatch)
    calls = [ast.unparse(node) for node in calls_of_devices(path)]
    return {kind for call in calls for kind in eval(call, {"cl": cl})}


def is_devices(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "cl.devices"


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 7, 8])
def test_lessons_get_virtual_gpus_on_any_machine(gpus, monkeypatch):
    """What they say of bytes, peaks and times holds for these alone."""
    kinds = {path.stem: kinds_of_devices(path, gpus, monkeypatch) for path in LESSONS}
    assert set().union(*kinds.values()) == {"vgpu"}


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 7, 8])
def test_an_exercise_gets_devices_of_one_kind(gpus, monkeypatch):
    for path in SOLUTIONS:
        assert len(kinds_of_devices(path, gpus, monkeypatch)) <= 1


def test_a_rank_that_counts_on_its_devices_names_them():
    """All but the one that asks how many GPUs there are, and measures them."""
    unnamed = {
        (path.stem, name)
        for path in LESSONS
        for name, source in sources(path).items()
        for node in filter(is_devices, ast.walk(ast.parse(source)))
        if not NAMED & {keyword.arg for keyword in node.keywords}
    }
    assert unnamed == {("01_model_parallel", "eight"), ("03_data_parallel", "own")}


# --- no answer is made up


NAN = {"nan", "torch.nan", "math.nan", "float('nan')"}
DEFAULT_AT = {"get": 0, "pop": 1, "next": 1, "getattr": 2}  # get gives None without


def made_up(source):
    """What gives a number, None or nan where there is nothing, in an answer cell."""
    for node in ast.walk(ast.parse(source)):
        if ast.unparse(node) in NAN or any(map(fixed, defaults(node))):
            yield ast.unparse(node)


def defaults(node):
    """The values that stand for what is not there."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        yield node.values[-1]
    if isinstance(node, ast.Call):
        place = DEFAULT_AT.get(ast.unparse(node.func).rpartition(".")[2], math.inf)
        if len(node.args) > place:
            yield node.args[-1] if len(node.args) > max(1, place) else None
        yield from (word.value for word in node.keywords if word.arg == "default")


def fixed(value):
    """Whether it says the same whatever ran: a name or a sum may tell of the run."""
    return value is None or not any(isinstance(n, ast.Name) for n in ast.walk(value))


@pytest.mark.parametrize(
    "text",
    [
        'a.was(t.moved().get("broadcast", torch.nan))',
        "a.was(found.get(1))",
        "a.was(next(iter(x), 0))",
        "a.was(getattr(x, 'bytes', 0))",
        "a.was(max(x)); y = math.nan",
        "a.was(d.pop(1, None))",
        "a.was(max(x, default=0))",
        "a.was(len(x) or 1)",
    ],
)
def test_a_default_is_found(text):
    assert list(made_up(text))


def test_a_text_that_tells_of_the_run_is_no_such_default():
    assert not list(made_up("a.was({2: 'both'}.get(len(x), 'only ' + x[0]))"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_answer_comes_from_a_default(path):
    answers = [source for source in sources(path).values() if ".was(" in source]
    assert not [found for source in answers for found in made_up(source)]


# --- traces of one process that drives GPUs


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_nccl_communicates_and_its_bytes_are_not_known(gpus):
    trace = traced(data_parallel(gpus))
    assert trace.ranks == tuple(f"cuda:{gpu}" for gpu in range(gpus))
    for gpu in trace.ranks:
        names = {event.name for event in trace.select(gpu, "compute")}
        assert names == {"forward", "backward"}
        calls = trace.calls(gpu)
        assert calls["broadcast"] == calls["reduce"] == 1
    assert trace.moved() == {"copy": (gpus - 1) * (4096 + 2 * 640)}
    assert trace.source.endswith("bytes that NCCL moved are not told")


def test_one_gpu_says_nothing_of_nccl():
    trace = recorded()
    assert trace.source == "measured: 1 × H100"
    assert {event.kind for event in trace} == {"compute", "communicate"}
    assert trace.moved() == {"copy": 270_336}


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_what_lessons_draw_can_be_drawn_of_gpus(gpus):
    trace = recorded() if gpus == 1 else traced(data_parallel(gpus))
    for draw in (cl.plot_timeline, cl.plot_transfers):
        assert "nan" not in draw(trace).get_title()
    for scene in (scenes.timeline(trace), scenes.transfers(trace)):
        assert "nan" not in repr(scene)


@contextmanager
def on_gpus(monkeypatch, gpus):
    """`cl.trace`, `cl.devices`, `cl.launch` as on such a machine; sums on the CPU."""
    real = traced(data_parallel(max(1, gpus)))

    @contextmanager
    def trace():
        filled = Trace((), "")
        yield filled
        vars(filled).update(vars(real))

    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(cl, "trace", trace, raising=False)
    monkeypatch.setattr(
        cl, "devices", lambda n, **_: [torch.device("cpu")] * n, raising=False
    )
    monkeypatch.setattr(nn, "DataParallel", lambda model, device_ids: model)
    monkeypatch.setattr(
        cl, "launch", lambda function, **_: [function(0, 1)], raising=False
    )
    yield


@pytest.mark.parametrize(("gpus", "several"), [(2, 2), (3, 3), (4, 4), (8, 4)])
def test_lesson_03_measures_the_gpus_that_are_there(gpus, several, monkeypatch):
    with on_gpus(monkeypatch, gpus):
        names = {}
        run(names, ["setup", "devices"], "03")
        define(names, "step", "03")
        names["network"] = lambda *_, **__: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 10)
        )
        run(names, ["own"], "03")
    assert set(names["times"]) == {"one device", f"{several} devices"}
    times = [time for curve in names["times"].values() for time in curve.values()]
    assert all(math.isfinite(time) and time > 0 for time in times)
    assert names["source"].startswith("measured: ")


# --- traces of ranks with a GPU each


def launched(trace):
    """What a launch gives, with this trace."""
    return lambda *_, **__: SimpleNamespace(trace=trace)


HAND = ["setup", "join", "models", "hand-guess", "hand"]
DDP = [*HAND, "see", "ddp-guess", "train"]


@pytest.mark.parametrize(
    ("ids", "trace", "said"),
    [
        (HAND, ddp(24, 4, broadcasts=4), "96."),
        (DDP, ddp(24, 1), "24."),
        ([*DDP, "bucket-guess", "default"], ddp(12, 2), "2."),
        ([*HAND, "sync", "sync-guess", "sync-count"], ddp(4, 1, optimizer=False), "4."),
    ],
    ids=["hand", "ddp", "buckets", "sync"],
)
def test_lesson_04_counts_the_all_reduces_of_nccl(ids, trace, said, monkeypatch):
    monkeypatch.setattr(cl, "launch", launched(trace), raising=False)
    assert seen(run({}, ids, "04")) == said


def test_lesson_04_says_how_much_nccl_hides(monkeypatch):
    monkeypatch.setattr(cl, "launch", launched(ddp(12, 1)), raising=False)
    assert "%" in seen(run({}, [*DDP, "one-guess", "one"], "04"))


def test_lesson_04_compares_one_gpu_with_two(monkeypatch):
    traces = {1: ddp(12, 0, ranks=1), 2: ddp(12, 1)}

    def launch(*_, world_size, **__):
        return SimpleNamespace(trace=traces[world_size])

    monkeypatch.setattr(cl, "launch", launch, raising=False)
    ids = [*DDP, "pace", "pace-guess", "speed"]
    assert seen(run({}, ids, "04"))[:2] in ("ye", "no")


def test_lesson_00_draws_a_step_of_two_gpus(monkeypatch):
    monkeypatch.setattr(cl, "launch", launched(ddp(6, 1)), raising=False)
    names = {}
    shown = run(names, ["setup", "data", "model", "join", "train", "see"], "00")
    assert len(names["steps"]) == len(shown) == 5
    assert all("2 ranks" in repr(step) for step in names["steps"])


def test_a_kernel_belongs_to_the_phase_of_its_own_operator():
    trace = ddp(3, 1)
    for step in trace.steps():
        names = [e.name for e in step.select(0, "compute")]
        assert names == ["forward", "backward", "optimizer"]
