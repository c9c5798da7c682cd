"""The scripts of lessons 04, 05 and 08; what they start is forked.

That `python`, `torchrun` and `spawn` start them is seen in the lessons, which do that.
Launchers start that of 08 here, each once.
"""

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy
import pytest
import torch

from course_lib.data import digits
from tests import lacks, ports
from tests.commands import Python
from tests.leftovers import Leftovers, becomes, below

FOLDER = Path(__file__).parent.parent / "notebooks" / "scripts"
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
PRELUDE = f"""
import functools, glob, runpy, sys
import torch.multiprocessing as mp
sys.path.insert(0, {str(FOLDER)!r})
mp.spawn = functools.partial(mp.start_processes, start_method="fork")
"""
TRAIN, HOGWILD, DDP = (
    f"{PRELUDE}runpy.run_path({str(FOLDER / name)!r}, run_name='__main__')\n"
    for name in ("train.py", "hogwild.py", "ddp.py")
)
# then the threads that the process still has
LEFT = """
names = [open(file).read() for file in glob.glob("/proc/self/task/*/comm")]
print("left:", [name for name in names if "gloo" in name])
"""


@pytest.fixture(autouse=True)
def clean(nothing_left):
    """No process is left after a test."""


def outside():
    """The environment without what a launcher sets."""
    return {k: v for k, v in os.environ.items() if k not in RANKS}


def start(code, *arguments, folder="/", **variables):
    """A process of one thread, in which no variable of a launcher is set but these."""
    env = {**outside(), "OMP_NUM_THREADS": "1", **variables}
    return Python(code, *arguments, cwd=folder, env=env)


def finish(process):
    """What it printed; killed with its ranks' parent if it hangs."""
    try:
        printed, errors = process.communicate(timeout=300)
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


# five steps of 64 samples, the last of 44, which four ranks do not share equally;
# saved after 2, 4 and 5
SHORT = ("--epochs=1", "--data-size=300", "--every=2")
DRAWS = ("--dropout=0.2", "--decay=0.9")
SCRIPT = str(FOLDER / "ddp.py")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


@pytest.fixture
def ddp(monkeypatch):
    """The script as a module, in a process that no launcher has started."""
    monkeypatch.syspath_prepend(FOLDER)
    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGUSR1)
    with mock.patch.dict(os.environ):  # which it changes
        for name in (*RANKS, "MASTER_ADDR"):
            os.environ.pop(name, None)
        yield importlib.import_module("ddp")
    torch.set_num_threads(threads)
    signal.signal(signal.SIGUSR1, handler)


@pytest.fixture
def alone(ddp, tmp_path):
    """A training in this process: more options in, its weights out."""

    def train(*options, name="checkpoint.pt"):
        ddp.main([*SHORT, f"--checkpoint={tmp_path / name}", *options])
        return weights(tmp_path / name)

    return train


def weights(path):
    """All weights of a checkpoint, in one tensor."""
    model = torch.load(path)["model"]
    return torch.cat([tensor.flatten() for tensor in model.values()])


def launch(*command, folder, **variables):
    """Start a launcher that leaves its files in a folder."""
    own = {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder), **variables}
    own |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=outside() | own, cwd=folder, **pipes)


def ended(*launchers):
    """What the launchers printed, together."""
    try:
        printed = [one.communicate(timeout=300)[0] for one in launchers]
    finally:
        for one in launchers:
            one.kill()
    assert not any(one.returncode for one in launchers), printed
    return "".join(printed)


def mpirun(name, *options):
    """The command of an MPI."""
    root = ["--allow-run-as-root"] if name == "openmpi" and os.geteuid() == 0 else []
    return [f"mpirun.{name}", *root, *options, sys.executable, SCRIPT]


def test_two_ranks_that_spawn_starts_end_with_the_weights_of_one(alone, tmp_path):
    path = tmp_path / "two.pt"
    # of one process, whose place is counted in samples
    printed = run(DDP, *SHORT, f"--checkpoint={path}", "--spawn=2")
    assert "step 5: " in printed
    torch.testing.assert_close(weights(path), alone(), atol=1e-6, rtol=0)


def slurm(tasks):
    """The variables of a step of Slurm with so many tasks on one node."""
    step = {"SLURM_STEP_NUM_TASKS": tasks, "SLURM_STEP_TASKS_PER_NODE": tasks}
    return step | dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0")


def test_spawn_starts_its_ranks_in_a_terminal_that_is_a_step_of_slurm(tmp_path):
    path = tmp_path / "two.pt"
    run(DDP, *SHORT, f"--checkpoint={path}", "--spawn=2", **slurm("1"))
    assert torch.load(path)["world_size"] == 2


def test_spawn_says_that_a_launcher_has_started_ranks_already():
    code = (
        PRELUDE
        + """
import ddp
try:
    ddp.main(["--spawn=2"])
except SystemExit as left:
    print(left)
"""
    )
    words = (
        "--spawn=2, but a launcher has started 4 ranks already: leave out one of them"
    )
    assert run(code, **slurm("4")) == f"{words}\n"


@pytest.mark.parametrize(
    ("name", "options", "ranks"),
    [
        pytest.param(
            *("openmpi", ("--oversubscribe", "-np", "4", "--map-by", "ppr:4:node"), 4),
            marks=lacks.needs("OpenMPI"),
        ),
        pytest.param("mpich", ("-np", "2"), 2, marks=lacks.needs("MPICH")),
    ],
)
def test_ranks_of_an_mpi_end_with_the_weights_of_one(
    alone, tmp_path, name, options, ranks
):
    path, port = tmp_path / "mpi.pt", str(ports.free())
    command = [*mpirun(name, *options), *SHORT, f"--checkpoint={path}"]
    ended(launch(*command, folder=tmp_path, MASTER_PORT=port))
    assert torch.load(path)["world_size"] == ranks
    torch.testing.assert_close(weights(path), alone(), atol=1e-6, rtol=0)


def test_ranks_of_two_agents_end_with_the_weights_of_one(alone, tmp_path):
    path, place = tmp_path / "agents.pt", f"127.0.0.1:{ports.free()}"
    command = [*TORCHRUN, "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d"]
    command += [f"--rdzv-endpoint={place}", SCRIPT, *SHORT, f"--checkpoint={path}"]
    ended(*(launch(*command, folder=tmp_path) for _ in range(2)))
    assert torch.load(path)["world_size"] == 2
    torch.testing.assert_close(weights(path), alone(), atol=1e-6, rtol=0)


def test_a_rank_that_is_killed_changes_no_weight_and_the_log_shows_it(tmp_path):
    path, log = tmp_path / "killed.pt", tmp_path / "losses.jsonl"
    command = [*TORCHRUN, "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command += [SCRIPT, *SHORT, *DRAWS, f"--checkpoint={path}", f"--losses={log}"]
    killed = launch(*command, "--die-at=3", "--die-rank=1", folder=tmp_path)
    run(DDP, *SHORT, *DRAWS, f"--checkpoint={tmp_path / 'two.pt'}", "--spawn=2")
    printed = ended(killed)
    # not which rank torchrun names: it looks now and then, and may see the other first
    assert "goes on after step 2 (" in printed
    rows = list(map(json.loads, log.read_text().splitlines()))
    assert [row["step"] for row in rows] == [1, 2, 3, 3, 4, 5]
    assert [row["start"] for row in rows] == [0, 0, 0, 2, 2, 2]
    assert rows[2]["loss"] == rows[3]["loss"]
    assert torch.equal(weights(path), weights(tmp_path / "two.pt"))


# stopped after an epoch, with a last batch that ranks do not share equally
GOES_ON = f"""{PRELUDE}
import ddp
*options, stopped, whole = sys.argv[1:]
for path, epochs in ((stopped, 1), (stopped, 2), (whole, 2)):
    ddp.main([*options, f"--epochs={{epochs}}", f"--checkpoint={{path}}"])
"""


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_run_that_goes_on_ends_bit_by_bit_as_one_without_a_stop(tmp_path, ranks):
    paths = [str(tmp_path / name) for name in ("stopped.pt", "whole.pt")]
    run(GOES_ON, *SHORT[1:], *DRAWS, f"--spawn={ranks}", *paths)
    stopped, whole = map(torch.load, paths)
    assert torch.equal(*map(weights, paths))
    for name in ("optimizer", "schedule"):
        assert str(stopped[name]) == str(whole[name])
    states = [state["cpu"] for state in stopped["random"]]
    assert all(map(torch.equal, states, (one["cpu"] for one in whole["random"])))
    # each rank draws other masks
    assert len({bytes(state.tolist()) for state in states}) == len(states) == ranks


def test_dropout_and_a_schedule_change_the_weights(alone):
    plain = alone(name="plain.pt")
    for option in DRAWS:
        assert not torch.equal(alone(option, name=f"{option}.pt"), plain)


def test_a_checkpoint_of_one_rank_serves_two(alone, tmp_path, capfd):
    whole, path = alone("--epochs=2"), tmp_path / "grown.pt"
    alone(name="grown.pt")
    options = (*SHORT, f"--checkpoint={path}", "--epochs=2", "--spawn=2")
    assert "goes on after step 5 (ranks then 1, now 2)" in run(DDP, *options)
    torch.testing.assert_close(weights(path), whole, atol=1e-6, rtol=0)


@pytest.mark.parametrize("parts", [2, 70])  # and more than there are samples
def test_accumulation_ends_with_the_same_weights(alone, parts):
    found = alone(f"--accumulation-steps={parts}", name="parts.pt")
    torch.testing.assert_close(found, alone(), atol=1e-6, rtol=0)


def test_a_group_of_one_rank_ends_with_the_same_weights(alone):
    assert torch.equal(alone("--distributed", name="group.pt"), alone())
    assert not torch.distributed.is_initialized()


def cut(path):
    """Leave the first half of a file."""
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    """Change one byte in the middle of a file, where its tensors are."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_after_a_damage_the_checkpoint_before_counts(alone, tmp_path, capsys, damage):
    path, whole = tmp_path / "checkpoint.pt", alone("--epochs=2", name="whole.pt")
    alone()
    damage(path)
    capsys.readouterr()
    assert torch.equal(alone("--epochs=2"), whole)
    printed = capsys.readouterr().out
    assert "goes on after step 4 (" in printed  # and the newest was that of step 5
    assert printed.count("checkpoint.pt is damaged") == (damage is not Path.unlink)
    assert torch.load(f"{path}.1")["step"] == 8  # the damaged one was not kept


def test_with_two_damaged_checkpoints_it_begins_anew(alone, tmp_path, capsys):
    whole, path = alone(), tmp_path / "checkpoint.pt"
    for name in (path, Path(f"{path}.1")):
        cut(name)
    assert torch.equal(alone(), whole)
    assert capsys.readouterr().out.count("is damaged") == 2


def test_what_torch_refuses_to_load_is_not_called_damaged(ddp, tmp_path, monkeypatch):
    monkeypatch.setattr(ddp, "random_states", lambda: [numpy.random.get_state()])
    options = [*SHORT, f"--checkpoint={tmp_path / 'checkpoint.pt'}"]
    ddp.main(options)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(pickle.UnpicklingError):
        ddp.main([*options, "--epochs=2"])
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_costs_a_checkpoint_and_no_more(alone, tmp_path, capsys):
    path, whole = tmp_path / "checkpoint.pt", alone("--epochs=2", name="whole.pt")
    alone()
    # what is written for the first save of the next run goes to a disk that is full
    Path(f"{path}.part").symlink_to("/dev/full")
    assert torch.equal(alone("--epochs=2"), whole)
    [line] = [one for one in capsys.readouterr().out.splitlines() if "saved" in one]
    assert line.startswith("step 6: not saved, the file before stays: ")
    assert not os.path.lexists(f"{path}.part")


@pytest.mark.parametrize("error", [OSError(28, "No space"), RuntimeError("No space")])
def test_a_disk_that_stays_full_keeps_the_last_checkpoint(
    alone, ddp, tmp_path, capsys, monkeypatch, error
):
    def save(state, file):
        file.write(b"half of it")
        raise error

    before = alone()
    monkeypatch.setattr(ddp.torch, "save", save)
    after = alone("--epochs=2")
    assert capsys.readouterr().out.count("not saved, the file before stays: ") == 3
    assert torch.equal(after, before)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint.pt", "checkpoint.pt.1"]


def test_a_checkpoint_of_other_data_is_refused(alone):
    alone()
    with pytest.raises(SystemExit, match="made with another seed: 0"):
        alone("--seed=1")


# --- a signal before the time is over

# "take_step:1:2": rank 1 gets the signal when it calls this for the second time
SIGNALLED = f"""{PRELUDE}
import ddp, os, signal
def hook(name, rank, call):
    plain, calls = getattr(ddp, name), []
    def hooked(*arguments, **options):
        calls.append(name)
        if (ddp.who()[0], len(calls)) == (rank, call):
            os.kill(os.getpid(), signal.SIGUSR1)
        return plain(*arguments, **options)
    setattr(ddp, name, hooked)
for name, rank, call in (place.split(":") for place in sys.argv[1].split()):
    hook(name, int(rank), int(call))
ddp.main(sys.argv[2:])
"""
TWO_EPOCHS = ("--data-size=300", "--epochs=2", "--every=2", *DRAWS)
ENDLESS = (*TWO_EPOCHS, "--epochs=1000000")
HANDLED = "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"


def steps(log):
    """The numbers of the steps in a file of losses, where it is there."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line)["step"] for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The weights of two epochs without a stop, by the number of ranks."""
    folder, found = tmp_path_factory.mktemp("whole"), {}
    for ranks in (1, 2):
        path = folder / f"{ranks}.pt"
        spawn = [f"--spawn={ranks}"] if ranks > 1 else []
        run(DDP, *TWO_EPOCHS, f"--checkpoint={path}", *spawn)
        found[ranks] = weights(path)
    return found


@pytest.fixture
def slurm_job(tmp_path):
    """Variables of a job of Slurm, and a function: what its scontrol was told."""
    calls, folder = tmp_path / "calls", tmp_path / "bin"
    folder.mkdir()
    program = folder / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexit ${{REFUSES:-0}}\n')
    program.chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "PATH": f"{folder}:{os.environ['PATH']}"}
    return variables, lambda: calls.read_text() if calls.exists() else ""


@pytest.mark.parametrize(
    ("ranks", "places", "last"),
    [
        pytest.param(1, "take_step:0:2", 2, id="one process"),
        pytest.param(2, "take_step:1:2", 2, id="one rank of two"),
        pytest.param(2, "take_step:1:2 take_step:0:3", 2, id="at different steps"),
        pytest.param(2, "take_step:0:3 report:1:3", 3, id="at one step"),
        pytest.param(2, "take_step:0:3 report:0:3 save:0:2", 3, id="again and again"),
        pytest.param(2, "write:0:1", 3, id="in the save of step 2"),
        pytest.param(2, "settle:1:1", 1, id="before the first step"),
    ],
)
def test_a_signal_stops_all_ranks_after_one_step_and_changes_no_weight(
    tmp_path, whole, ranks, places, last
):
    path, log = tmp_path / "checkpoint.pt", tmp_path / "losses.jsonl"
    options = [*TWO_EPOCHS, f"--checkpoint={path}", f"--losses={log}"]
    options += [f"--spawn={ranks}"] if ranks > 1 else []
    told = f"stopped by USR1 after step {last}: start again to go on\n"
    assert run(SIGNALLED, places, *options) == told
    assert torch.load(path)["step"] == last == len(steps(log))
    run(DDP, *options)
    assert steps(log) == [*range(1, 11)]
    assert torch.equal(weights(path), whole[ranks])


@pytest.mark.parametrize("place", ["take_step:1:10", "evaluate:1:1", "settle:0:1"])
def test_a_signal_that_comes_with_the_last_step_or_later_stops_nothing(
    tmp_path, whole, slurm_job, place
):
    (variables, calls), path = slurm_job, tmp_path / "checkpoint.pt"
    options = (*TWO_EPOCHS, f"--checkpoint={path}", "--spawn=2", "--requeue")
    if place == "settle:0:1":  # all is done when it begins
        run(DDP, *options)
    printed = run(SIGNALLED, place, *options, **variables)
    assert "step 10: " in printed and "stopped" not in printed and not calls()
    assert torch.equal(weights(path), whole[2])


def test_when_all_is_done_a_signal_is_ignored(alone):
    alone()
    # as Python ends, it would give up a handler of its own, and the rank would die
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN


def test_without_a_checkpoint_a_signal_changes_nothing():
    assert "step 5: " in run(SIGNALLED, "take_step:1:2", *SHORT, "--spawn=2")


@pytest.mark.parametrize(
    ("option", "more", "told"),
    [
        (["--requeue"], {}, "requeue 7\n"),
        # the first of its tasks may have the number of the whole array
        (
            ["--requeue"],
            {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"},
            "requeue 7_2\n",
        ),
        ([], {}, ""),
        (["--requeue"], {"SLURM_JOB_ID": None}, ""),
    ],
)
def test_rank_0_puts_a_job_of_slurm_into_the_queue_if_asked(
    tmp_path, slurm_job, option, more, told
):
    variables, calls = slurm_job
    given = {k: v for k, v in (variables | more).items() if v is not None}
    options = (*TWO_EPOCHS, f"--checkpoint={tmp_path / 'a.pt'}", "--spawn=2", *option)
    printed = run(SIGNALLED, "take_step:1:2", *options, **given)
    assert "after step 2: start again" in printed and calls() == told


def test_a_job_that_slurm_does_not_take_back_has_failed(tmp_path, slurm_job):
    (variables, calls), path = slurm_job, tmp_path / "checkpoint.pt"
    options = (*TWO_EPOCHS, f"--checkpoint={path}", "--requeue")
    process = start(SIGNALLED, "take_step:0:2", *options, **variables, REFUSES="1")
    printed, errors = process.communicate(timeout=300)
    assert process.poll() == 1 and "['scontrol', 'requeue', '7']" in errors
    assert calls() == "requeue 7\n" and torch.load(path)["step"] == 2


def test_a_signal_stops_a_run_only_once_it_is_saved(tmp_path, whole, slurm_job):
    (variables, calls), path = slurm_job, tmp_path / "checkpoint.pt"
    options = (*TWO_EPOCHS, f"--checkpoint={path}", "--requeue", "--every=100")
    Path(f"{path}.part").symlink_to("/dev/full")  # the first save goes there
    printed = run(SIGNALLED, "take_step:0:3", *options, **variables).splitlines()
    assert printed[0].startswith("step 3: not saved, the file before stays: ")
    assert printed[1:] == ["stopped by USR1 after step 4: start again to go on"]
    assert calls() == "requeue 7\n"
    run(DDP, *options)
    assert torch.equal(weights(path), whole[1])


def test_a_job_that_can_save_nothing_goes_on_and_is_not_put_into_the_queue(
    tmp_path, slurm_job
):
    variables, calls = slurm_job
    options = (*SHORT, f"--checkpoint={tmp_path}/none/a.pt", "--requeue", "--spawn=2")
    printed = run(SIGNALLED, "take_step:1:3", *options, **variables)
    # step 2 as ever; then after each
    assert [line[:17] for line in printed.splitlines()[:-1]] == [
        f"step {step}: not saved" for step in (2, 3, 4, 5)
    ]
    assert "step 5: " in printed.splitlines()[-1] and not calls()


def stopped(process, log, path):
    """What a process printed that got the signal after some steps, and the last one."""
    assert becomes(lambda: len(steps(log)) > 2)
    process.send_signal(signal.SIGUSR1)
    printed = process.communicate(timeout=300)[0]
    last = steps(log)[-1]
    assert f"stopped by USR1 after step {last}: start again to go on" in printed
    assert torch.load(path)["step"] == last
    return printed, last


def test_ranks_that_variables_tell_who_they_are_stop_when_one_gets_the_signal(tmp_path):
    path, log = tmp_path / "checkpoint.pt", tmp_path / "losses.jsonl"
    options = (DDP, *ENDLESS, f"--checkpoint={path}", f"--losses={log}")
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports.free())}
    one, other = (
        start(*options, **dict(zip(RANKS, (rank, rank, "2", "2"))) | port)
        for rank in "01"
    )
    try:
        assert becomes(lambda: len(steps(log)) > 2)
        other.send_signal(signal.SIGUSR1)
        printed, others = finish(one), finish(other)
    finally:
        for process in (one, other):
            process.kill()
    last = steps(log)[-1]
    assert printed == f"stopped by USR1 after step {last}: start again to go on\n"
    assert torch.load(path)["step"] == last and others == ""


def test_ranks_that_spawn_starts_get_the_signal_also_while_they_import(tmp_path):
    path, log = tmp_path / "checkpoint.pt", tmp_path / "losses.jsonl"
    options = (*ENDLESS, f"--checkpoint={path}", f"--losses={log}", "--spawn=2")
    process = launch(sys.executable, SCRIPT, *options, folder=tmp_path)

    def ranks():
        names = [" ".join(one.cmdline()) for one in below(process.pid)]
        return [name for name in names if "spawn_main" in name]

    try:
        assert becomes(lambda: len(ranks()) == 2)
        process.send_signal(signal.SIGUSR1)
        assert "stopped by USR1 after step " in ended(process)
    finally:
        process.kill()
    assert torch.load(path)["step"] == steps(log)[-1]


def test_torchrun_hands_the_signal_on_if_asked_and_ends_with_status_1(
    tmp_path, slurm_job
):
    (variables, calls), path = slurm_job, tmp_path / "checkpoint.pt"
    log = tmp_path / "losses.jsonl"
    command = [*TORCHRUN, "--standalone", "--nproc-per-node=2", HANDLED, SCRIPT]
    command += [f"--checkpoint={path}", f"--losses={log}", "--requeue", *ENDLESS]
    agent = launch(*command, folder=tmp_path, **variables)
    try:
        printed, last = stopped(agent, log, path)
    finally:
        agent.kill()
    assert "closing signal SIGUSR1" in printed and "forcefully" not in printed
    assert agent.returncode == 1 and calls() == "requeue 7\n"
    assert f"goes on after step {last} (" in run(DDP, *SHORT, f"--checkpoint={path}")


def test_torchrun_kills_ranks_that_save_for_longer_than_it_waits(tmp_path):
    path, log = tmp_path / "checkpoint.pt", tmp_path / "losses.jsonl"
    run(DDP, *SHORT, f"--checkpoint={path}")
    os.mkfifo(f"{path}.part")  # nobody reads, so the next save does not end
    command = [*TORCHRUN, "--standalone", "--nproc-per-node=2", HANDLED, SCRIPT]
    command += [*ENDLESS, f"--checkpoint={path}", f"--losses={log}"]
    wait = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}
    agent = launch(*command, folder=tmp_path, **wait)
    try:
        assert becomes(lambda: steps(log) == [6])
        agent.send_signal(signal.SIGUSR1)
        printed = agent.communicate(timeout=300)[0]
    finally:
        agent.kill()
    assert "forcefully exiting" in printed
    assert agent.returncode == 1 and torch.load(path)["step"] == 5


FOUND = {  # rank, local rank, world size, local world size
    "torchrun": dict(zip(RANKS[:3] + ("LOCAL_WORLD_SIZE",), "3142")),
    "open mpi": {
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "SLURM_PROCID": "0",  # mpirun in a job of one task
        "SLURM_LOCALID": "0",
    },
    "mpich": {
        "PMI_RANK": "3",
        "MPI_LOCALRANKID": "1",
        "PMI_SIZE": "4",
        "MPI_LOCALNRANKS": "2",
    },
    "slurm": {
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2),2",
        "SLURM_NODEID": "2",
    },
}


@pytest.mark.parametrize("launcher", FOUND)
def test_a_rank_finds_its_numbers(ddp, launcher):
    assert ddp.resolve(FOUND[launcher]) == [3, 1, 4, 2]


def test_without_a_launcher_there_are_no_numbers(ddp):
    # a batch script of Slurm is no rank
    assert ddp.resolve({"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}) is None


def test_what_cannot_work_is_refused(ddp):
    os.environ.update(FOUND["mpich"])
    with pytest.raises(SystemExit, match="--no-distributed, but there are 4 ranks"):
        ddp.main(["--no-distributed"])
    with pytest.raises(SystemExit, match="set MASTER_ADDR"):
        ddp.main([])
