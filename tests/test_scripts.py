"""The scripts of lessons 04 and 05, started as a learner starts them."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib.data import digits

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent.parent / "notebooks" / "scripts" / "train.py"
SPAWN = [sys.executable, SCRIPT]
HOGWILD = [sys.executable, SCRIPT.with_name("hogwild.py")]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")


@pytest.fixture(autouse=True)
def clean(monkeypatch, nothing_left):
    """No variable of a launcher around the tests, and no process left after them."""
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def start(*command):
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ,
    )


def finish(process):
    """What it printed; killed with its ranks' parent if it hangs."""
    try:
        printed, _ = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 0, printed
    return printed


def run(*command):
    return finish(start(*command))


def test_spawn_and_torchrun_print_the_same():
    torchrun = run(*TORCHRUN, "--nproc-per-node=2", SCRIPT)
    assert run(*SPAWN, "--world-size=2") == torchrun
    assert torchrun.count("accuracy") == 5


def test_two_ranks_learn_the_weights_of_one(tmp_path):
    weights = []
    for world_size in (1, 2):
        file = tmp_path / f"{world_size}.pt"
        options = (f"--world-size={world_size}", f"--save={file}")
        run(*SPAWN, *options)
        weights.append(torch.load(file))
    one, two = weights
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-4, rtol=0)


def test_the_saved_names_are_those_of_the_model_without_ddp(tmp_path):
    file = tmp_path / "weights.pt"
    run(*TORCHRUN, "--nproc-per-node=2", SCRIPT, f"--save={file}")
    assert list(torch.load(file)) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_two_trainings_at_once_do_not_meet():
    both = [start(*SPAWN, "--world-size=2") for _ in range(2)]
    first, second = [finish(process) for process in both]
    assert first == second


def test_nothing_is_saved_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(*SPAWN, "--world-size=1")
    assert list(tmp_path.iterdir()) == []


ALONE = """
import glob, sys
sys.path.insert(0, sys.argv[1])
import train
train.train(0, 1)
names = [open(file).read() for file in glob.glob("/proc/self/task/*/comm")]
print("left:", [name for name in names if "gloo" in name])
"""


def test_after_the_training_no_thread_of_the_group_is_left(monkeypatch):
    # a thread of gloo that still ran could abort Python as it ends
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_PORT", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert "left: []" in run(sys.executable, "-c", ALONE, SCRIPT.parent)


@pytest.mark.parametrize("processes, shares", [(1, [7]), (3, [3, 2, 2])])
def test_processes_of_hogwild_share_out_all_updates(processes, shares):
    printed = run(*HOGWILD, f"--processes={processes}", "--updates=7")
    lines = [
        f"process {number}: {share} updates" for number, share in enumerate(shares)
    ]
    assert printed.splitlines()[:-1] == lines


def test_hogwild_learns_with_two_processes():
    printed = run(*HOGWILD, "--processes=2", "--updates=2000")
    accuracy = printed.rpartition("test accuracy ")[2].partition("%")[0]
    assert 85 < float(accuracy) <= 100


def test_hogwild_has_the_digits_of_the_lesson(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    parts = importlib.import_module("hogwild").load_data()
    for (images, labels), expected in zip(parts, digits(validation=261), strict=True):
        found, names = expected.tensors
        torch.testing.assert_close(images, found.flatten(1), rtol=0, atol=0)
        torch.testing.assert_close(labels, names, rtol=0, atol=0)


def test_every_process_of_hogwild_changes_the_same_weights(tmp_path):
    weights = []
    for processes in (1, 2):
        file = tmp_path / f"{processes}.pt"
        # each takes one update: the second process adds its own to that of the first
        options = (f"--processes={processes}", f"--updates={processes}")
        run(*HOGWILD, *options, f"--save={file}")
        weights.append(torch.load(file))
    one, two = weights
    assert all((one[name] != two[name]).any() for name in one)
