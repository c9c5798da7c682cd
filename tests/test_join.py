"""Which device and which backend a rank takes, by the GPUs that it sees."""

import ast
import importlib
import os
from pathlib import Path
from unittest import mock

import nbformat
import pytest
import torch
import torch.distributed as dist

from course_lib.launching import launcher, rank_process

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "notebooks/scripts"
LESSONS = (
    "00_start_here",
    "04_distributed_data_parallel",
    "04b_unlike_ranks",
    "04c_stop_and_go_on",
    "04d_own_ddp",
    "06_batch_size",
    "09_sharding",
    "09b_fully_shard",
)
STAGE = "04_distributed_data_parallel"
COPIES = [
    *(ROOT / f"notebooks/{name}.ipynb" for name in LESSONS),
    *(ROOT / f"{folder}/{STAGE}.ipynb" for folder in ("exercises", "solutions")),
    SCRIPTS / "train.py",
]
# local rank, ranks of the machine, GPUs that the rank sees: its device, its backend
PLACES = {
    "no GPU": (1, 2, 0, "cpu", "gloo"),
    "one rank, one GPU": (0, 1, 1, "cuda:0", "nccl"),
    "two ranks, two GPUs": (1, 2, 2, "cuda:1", "nccl"),
    "one rank, two GPUs": (0, 1, 2, "cuda:0", "nccl"),
    "two ranks share a GPU": (1, 2, 1, "cuda:0", "gloo"),
    "four ranks share two": (3, 4, 2, "cuda:1", "gloo"),
    "a rank of 16 on two machines": (7, 8, 8, "cuda:7", "nccl"),
}


def joins(path):
    """The definitions of `join` in a notebook or script, without docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = nbformat.reads(text, as_version=4).cells
        sources = [cell.source for cell in cells if cell.cell_type == "code"]
    else:
        sources = [text]
    for source in sources:
        if "def join(" not in source:
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == "join":
                lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
                yield "\n".join(line for line in lines if '"""' not in line)


@pytest.fixture
def made(monkeypatch):
    """What is asked of PyTorch, on a machine whose GPUs are pretended."""
    asked = {}

    def init(backend, *, device_id=None, timeout=None):
        asked.update(backend=backend, device_id=device_id)

    def see(gpus):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        return asked

    monkeypatch.setattr(dist, "init_process_group", init)
    monkeypatch.setattr(torch.cuda, "set_device", lambda d: asked.update(device=d))
    return see


def test_join_is_the_same_in_lessons_exercises_solutions_and_the_script():
    texts = {path: list(joins(path)) for path in COPIES}
    assert {len(copies) for copies in texts.values()} == {1}
    assert len({text for copies in texts.values() for text in copies}) == 1


def test_no_other_lesson_or_exercise_has_a_rule_of_its_own():
    every = list(ROOT.glob("*s/*.ipynb"))
    others = {path for path in every if list(joins(path))} - set(COPIES)
    assert every and not others
    for path in set(every) - set(COPIES):
        text = path.read_text(encoding="utf-8")
        assert 'init_process_group(\\"nccl' not in text, path


@pytest.mark.parametrize("place", PLACES)
def test_a_rank_takes_a_gpu_if_there_is_one_and_nccl_if_it_is_its_own(place, made):
    local_rank, ranks, gpus, device, backend = PLACES[place]
    asked, names = made(gpus), {"os": os, "torch": torch, "dist": dist}
    exec(next(joins(COPIES[0])), names)
    env = {"LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(ranks)}
    with mock.patch.dict(os.environ, env):
        assert str(names["join"]()) == device
    own = torch.device(device) if backend == "nccl" else None
    assert (asked["backend"], asked["device_id"]) == (backend, own)
    assert asked.get("device") == (torch.device(device) if gpus else None)


@pytest.fixture
def ddp(monkeypatch):
    """The script as a module, under no launcher."""
    monkeypatch.syspath_prepend(SCRIPTS)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    with mock.patch.dict(os.environ):  # which it changes
        for name in list(os.environ):
            if name in names or name.startswith("SLURM_"):
                del os.environ[name]
        os.environ["MASTER_ADDR"] = "node0"
        yield importlib.import_module("ddp")


@pytest.mark.parametrize("place", PLACES)
def test_the_script_takes_the_same(place, made, ddp):
    local_rank, ranks, gpus, device, backend = PLACES[place]
    asked = made(gpus)
    assert str(ddp.join([8 + local_rank, local_rank, 16, ranks])) == device
    own = torch.device(device) if backend == "nccl" else None
    assert (asked["backend"], asked["device_id"]) == (backend, own)


def slurm(local_rank, tasks=4, *, gpus="1"):
    """The variables of a task of srun, all on one node."""
    env = {"SLURM_PROCID": str(local_rank), "SLURM_LOCALID": str(local_rank)}
    env |= {"SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": str(tasks)}
    env |= {"SLURM_STEP_NUM_TASKS": str(tasks)}
    return env | ({"SLURM_GPUS_PER_TASK": gpus} if gpus else {})


def test_where_slurm_shows_each_rank_its_own_gpu_they_take_nccl(made, ddp, capsys):
    asked = made(1)
    for local_rank in range(4):
        os.environ.update(slurm(local_rank))
        assert ddp.join(ddp.resolve(slurm(local_rank))) == torch.device("cuda", 0)
        assert asked["backend"] == "nccl"
        assert asked["device_id"] == asked["device"] == torch.device("cuda", 0)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("env", "ranks", "gpus"),
    [
        (slurm(0, gpus=None), 4, 1),
        (slurm(0), 2, 1),  # torchrun or mpirun, within a task of srun
        ({}, 4, 2),
    ],
    ids=["no GPU of its own", "another launcher within", "four on two"],
)
def test_ranks_that_share_say_so_once_and_use_gloo(made, ddp, capsys, env, ranks, gpus):
    asked = made(gpus)
    os.environ.update(env)
    for local_rank in range(ranks):
        device = ddp.join([local_rank, local_rank, ranks, ranks])
        assert device == asked["device"] == torch.device("cuda", local_rank % gpus)
        assert asked["backend"] == "gloo"
    told = f"too few GPUs for nccl: {ranks} ranks of this machine see {gpus}, and use"
    assert capsys.readouterr().out == f"{told} gloo\n"


@pytest.mark.parametrize("gpus", [0, 1])
def test_nccl_that_is_asked_for_is_refused_before_it_fails(made, ddp, gpus):
    asked = made(gpus)
    told = "--backend=nccl needs a GPU for each rank, but 2 ranks of this machine see"
    with pytest.raises(SystemExit, match=f"{told} {gpus}: start fewer ranks"):
        ddp.join([1, 1, 2, 2], "nccl")
    assert not asked


def test_a_backend_that_is_asked_for_is_taken(made, ddp, capsys):
    asked = made(2)
    assert ddp.join([1, 1, 2, 2], "gloo") == torch.device("cuda", 1)
    assert (asked["backend"], asked["device_id"]) == ("gloo", None)
    ddp.join([1, 1, 2, 2], "nccl")
    assert asked["backend"] == "nccl"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("used", "title"),
    [
        ([[], []], "2 ranks on the CPU, one thread each"),
        ([["a"]], "1 rank on one GPU"),
        ([["a", "b"]], "1 rank on 2 GPUs"),
        ([["a"], ["b"]], "2 ranks, one GPU each"),
        ([["a"], ["a"]], "2 ranks on one GPU"),
        ([["a"], ["b"], ["a"], ["b"]], "4 ranks on 2 GPUs"),
        ([["a", "b"], ["c"]], "2 ranks on 3 GPUs"),
        ([["a"], [], []], "3 ranks, 1 of them on one GPU"),
    ],
)
@pytest.mark.parametrize("gpus", [0, 1, 8])
def test_a_launch_says_at_its_end_what_its_ranks_used(monkeypatch, gpus, used, title):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert launcher.describe(len(used), used=used) == title


def test_the_line_above_and_the_source_of_figures_are_as_the_ranks_tell(nothing_left):
    def pretend(rank, world_size):
        rank_process.used_gpus = lambda: ["GPU-0"]

    results = launcher.launch(pretend, world_size=2, trace=True)
    assert results.title.startswith("2 ranks on one GPU, ")
    assert results.trace.source.startswith("measured: 2 ranks on one GPU")


def test_before_its_end_it_claims_nothing_that_is_not_known(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for gpus, title in ((0, "4 ranks of 2 nodes on the CPU, one thread each"),) + tuple(
        (gpus, "4 ranks of 2 nodes") for gpus in (1, 4)
    ):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert launcher.describe(4, 2) == title


def test_a_rank_tells_on_which_gpus_it_had_tensors(monkeypatch):
    assert rank_process.used_gpus() == []
    held = {0: 0, 1: 512, 2: 0}
    for name, answer in (
        ("is_initialized", lambda: True),
        ("device_count", lambda: 3),
        ("max_memory_reserved", held.get),
        ("get_device_properties", lambda number: mock.Mock(uuid=f"GPU-{number}")),
    ):
        monkeypatch.setattr(torch.cuda, name, answer)
    assert rank_process.used_gpus() == ["GPU-1"]
