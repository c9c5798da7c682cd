"""The scripts of lessons 04 and 05; what they start is forked.

That `python`, `torchrun` and `spawn` start them is seen in the lessons, which do that.
"""

import importlib
import os
from pathlib import Path

import pytest
import torch

from course_lib.data import digits
from tests.commands import Python
from tests.leftovers import Leftovers, becomes

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent.parent / "notebooks" / "scripts"
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
PRELUDE = f"""
import functools, glob, runpy, sys
import torch.multiprocessing as mp
sys.path.insert(0, {str(FOLDER)!r})
mp.spawn = functools.partial(mp.start_processes, start_method="fork")
"""
TRAIN, HOGWILD = (
    f"{PRELUDE}runpy.run_path({str(FOLDER / name)!r}, run_name='__main__')\n"
    for name in ("train.py", "hogwild.py")
)
# then the threads that the process still has
LEFT = """
names = [open(file).read() for file in glob.glob("/proc/self/task/*/comm")]
print("left:", [name for name in names if "gloo" in name])
"""


@pytest.fixture(autouse=True)
def clean(nothing_left):
    """No process is left after a test."""


def start(code, *arguments, folder="/", **variables):
    """A process of one thread, in which no variable of a launcher is set but these."""
    outside = {k: v for k, v in os.environ.items() if k not in RANKS}
    env = {**outside, "OMP_NUM_THREADS": "1", **variables}
    return Python(code, *arguments, cwd=folder, env=env)


def finish(process):
    """What it printed; killed with its ranks' parent if it hangs."""
    try:
        printed, errors = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.poll() == 0, errors
    return printed


def run(*command, **variables):
    return finish(start(*command, **variables))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What each way to train printed, and the weights that it saved.

    One rank trains beside two that are started in the same way; it saves nothing. A
    third is told by variables that it is one, as torchrun does.
    """
    folder, left = tmp_path_factory.mktemp("trained"), Leftovers()
    empty = tmp_path_factory.mktemp("empty")
    rank = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "0"}
    rank |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    beside = start(TRAIN, "--world-size=1", folder=empty)
    found, file = {}, folder / "weights.pt"
    for name, command, variables in (
        ("two ranks", (TRAIN, "--world-size=2"), {}),
        ("alone", (TRAIN + LEFT,), rank),
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
    printed = run(HOGWILD, "--processes=3", "--updates=2000", f"--save={file}")
    shares = [667, 667, 666]
    lines = [f"process {n}: {share} updates" for n, share in enumerate(shares)]
    assert printed.splitlines()[:-1] == lines
    accuracy = printed.rpartition("test accuracy ")[2].partition("%")[0]
    assert 85 < float(accuracy) <= 100
    assert list(torch.load(file)) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_hogwild_has_the_digits_of_the_lesson(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    parts = importlib.import_module("hogwild").load_data()
    for (images, labels), expected in zip(parts, digits(validation=261), strict=True):
        found, names = expected.tensors
        torch.testing.assert_close(images, found.flatten(1), rtol=0, atol=0)
        torch.testing.assert_close(labels, names, rtol=0, atol=0)


# each process takes one update: the second adds its own to that of the first, which
# alone is taken here; forked, a process is not sent the weights, but must share them
ONE_EACH = f"""{PRELUDE}
import hogwild
two, both = hogwild.train(2, 2)
hogwild.mp.spawn = lambda work, args, nprocs: work(0, *args)
one, own = hogwild.train(1, 1)
pairs = zip(one.parameters(), two.parameters())
print(own.tolist(), both.tolist(), [bool((a != b).any()) for a, b in pairs])
"""


def test_every_process_of_hogwild_changes_the_same_weights():
    assert run(ONE_EACH) == "[1] [1, 1] [True, True, True, True]\n"
