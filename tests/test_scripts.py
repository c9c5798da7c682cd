"""The scripts of lessons 04 and 05, started as a learner starts them."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib.data import digits
from tests.leftovers import Leftovers, becomes

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent.parent / "notebooks" / "scripts" / "train.py"
SPAWN = [sys.executable, SCRIPT]
HOGWILD = [sys.executable, SCRIPT.with_name("hogwild.py")]
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")


@pytest.fixture(autouse=True)
def clean(nothing_left):
    """No process is left after a test."""


def start(*command, folder=None, **variables):
    """A process of one thread, in which no variable of a launcher is set but these."""
    outside = {k: v for k, v in os.environ.items() if k not in RANKS}
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**outside, "OMP_NUM_THREADS": "1", **variables},
        cwd=folder,
    )


def finish(process):
    """What it printed; killed with its ranks' parent if it hangs."""
    try:
        printed, _ = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 0, printed
    return printed


def run(*command, **variables):
    return finish(start(*command, **variables))


# one rank as torchrun starts it; then the threads that its process still has
ALONE = """
import glob, sys
sys.path.insert(0, sys.argv.pop(1))
import train
train.main()
names = [open(file).read() for file in glob.glob("/proc/self/task/*/comm")]
print("left:", [name for name in names if "gloo" in name])
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What each way to train printed, and the weights that it saved.

    One rank trains beside two that are started in the same way; it saves nothing. That
    `torchrun` itself prints what two ranks do is compared where lesson 04 runs it.
    """
    folder, left = tmp_path_factory.mktemp("trained"), Leftovers()
    empty = tmp_path_factory.mktemp("empty")
    rank = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "0"}
    rank["MASTER_ADDR"] = "127.0.0.1"
    beside = start(*SPAWN, "--world-size=1", folder=empty)
    found, file = {}, folder / "weights.pt"
    for name, command, variables in (
        ("two ranks", (*SPAWN, "--world-size=2"), {}),
        ("alone", (sys.executable, "-c", ALONE, SCRIPT.parent), rank),
    ):
        found[name] = run(*command, f"--save={file}", **variables), torch.load(file)
        file.unlink()
    found["beside"] = finish(beside), [*empty.iterdir()]
    assert becomes(lambda: not left.found()), left.found()
    return found


def test_rank_0_prints_a_line_for_each_epoch(trained):
    assert trained["two ranks"][0].count("accuracy") == 5


def test_two_ranks_learn_the_weights_of_one(trained):
    (_, one), (_, two) = trained["alone"], trained["two ranks"]
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-4, rtol=0)


def test_the_saved_names_are_those_of_the_model_without_ddp(trained):
    for name in ("alone", "two ranks"):
        _, weights = trained[name]
        assert list(weights) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_two_trainings_at_once_do_not_meet_and_save_nothing_unasked(trained):
    printed, _, _ = trained["alone"][0].partition("left:")
    assert trained["beside"] == (printed, [])


def test_after_the_training_no_thread_of_the_group_is_left(trained):
    # a thread of gloo that still ran could abort Python as it ends
    assert "left: []" in trained["alone"][0]


def test_processes_of_hogwild_share_out_all_updates_learn_and_save(tmp_path):
    file = tmp_path / "weights.pt"
    printed = run(*HOGWILD, "--processes=3", "--updates=2000", f"--save={file}")
    shares = [667, 667, 666]
    lines = [f"process {n}: {share} updates" for n, share in enumerate(shares)]
    assert printed.splitlines()[:-1] == lines
    accuracy = printed.rpartition("test accuracy ")[2].partition("%")[0]
    assert 85 < float(accuracy) <= 100
    assert list(torch.load(file)) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_hogwild_has_the_digits_of_the_lesson(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    parts = importlib.import_module("hogwild").load_data()
    for (images, labels), expected in zip(parts, digits(validation=261), strict=True):
        found, names = expected.tensors
        torch.testing.assert_close(images, found.flatten(1), rtol=0, atol=0)
        torch.testing.assert_close(labels, names, rtol=0, atol=0)


# each process takes one update: the second adds its own to that of the first, which
# alone is taken here
ONE_EACH = """
import functools, sys
sys.path.insert(0, sys.argv[1])
import hogwild
if __name__ == "__main__":
    # a spawned process is sent shared weights in any case, a forked one is not
    start = hogwild.mp.start_processes
    hogwild.mp.spawn = functools.partial(start, start_method="fork")
    two, both = hogwild.train(2, 2)
    hogwild.mp.spawn = lambda work, args, nprocs: work(0, *args)
    one, own = hogwild.train(1, 1)
    pairs = zip(one.parameters(), two.parameters())
    print(own.tolist(), both.tolist(), [bool((a != b).any()) for a, b in pairs])
"""


def test_every_process_of_hogwild_changes_the_same_weights():
    printed = run(sys.executable, "-c", ONE_EACH, SCRIPT.parent)
    assert printed == "[1] [1, 1] [True, True, True, True]\n"
