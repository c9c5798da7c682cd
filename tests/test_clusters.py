"""Ranks under any launcher, launch commands, job scripts; few launchers are started."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from unittest import mock

import pytest

from course_lib.clusters import form as forms
from course_lib.clusters import shell
from course_lib.clusters.commands import LAUNCHERS, command
from course_lib.clusters.comparison import compare_launchers
from course_lib.clusters.environments import LAUNCHERS as VARIABLES
from course_lib.clusters.environments import ResolvedRank, recorded, resolve_rank
from course_lib.clusters.job_scripts import SCHEDULERS, JobScript, job_script
from course_lib.errors import UsageError
from tests import lacks

SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}
OPEN_MPI = dict(zip(VARIABLES[2][1:4], ("2", "4", "0")))
TORCHRUN = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}
JOBS = [(scheduler, name) for scheduler in SCHEDULERS for name in SCHEDULERS[scheduler]]

# --- environments


@pytest.mark.parametrize("entry", recorded(), ids=lambda entry: entry["name"])
def test_the_rank_in_a_recorded_environment(entry):
    if entry["expected"] == "error":
        with pytest.raises(UsageError, match="Start the ranks|start the ranks"):
            resolve_rank(entry["env"])
    else:
        assert asdict(resolve_rank(entry["env"])) == entry["expected"]


def test_twenty_environments_say_where_they_come_from_and_not_from_whom():
    assert len(recorded()) == 20
    sources = [entry["source"].partition(":")[0] for entry in recorded()]
    assert sources.count("recorded") == 17 and sources.count("constructed") == 3
    for entry in recorded():
        hosts = [entry["env"][n] for n in entry["env"] if n.endswith(("LIST", "HOSTS"))]
        names = re.findall("[a-z]+", " ".join(hosts))
        assert set(names) <= {"node", "batch"}


def test_ranks_dealt_in_turn_are_among_the_recorded():
    # so that no rule computes the local rank from the rank
    turns = [e for e in recorded() if e["name"].endswith("ranks in turn")]
    assert {e["launcher"] for e in turns} == {"Open MPI", "MPICH", "Slurm"}
    for entry in turns:
        right = entry["expected"]
        assert right["rank"] % right["local_world_size"] != right["local_rank"]


def test_variables_set_by_hand_count_where_no_launcher_says_otherwise():
    assert resolve_rank(TORCHRUN) == ResolvedRank("by hand", 2, 4, 0)
    agree = OPEN_MPI | {"RANK": "2", "WORLD_SIZE": "4"}
    assert resolve_rank(agree).launcher == "Open MPI"


def test_the_environment_of_this_process_is_the_default():
    with mock.patch.dict(os.environ, TORCHRUN | {"LOCAL_WORLD_SIZE": "2"}):
        assert resolve_rank() == ResolvedRank("torchrun", 2, 4, 0, 2)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "found nothing. Start the ranks with torchrun"),
        ({"RANK": "1"}, "none of LOCAL_RANK, .* is there, found RANK=1"),
        ({"SLURM_JOB_ID": "7"}, "found SLURM_JOB_ID=7. Start the ranks with srun"),
        (
            {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": None},
            "OMPI_COMM_WORLD_SIZE is missing, .* OMPI_COMM_WORLD_RANK=2",
        ),
        ({**SLURM, "RANK": "0"}, "RANK=0 and SLURM_PROCID=3 disagree. .*by hand"),
        (
            {**SLURM, **TORCHRUN, "RANK": "3", "WORLD_SIZE": "1"},
            "WORLD_SIZE=1 and SLURM_STEP_NUM_TASKS=4 disagree",
        ),
        (
            {**OPEN_MPI, "PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"},
            "PMI_RANK=1 and OMPI_COMM_WORLD_RANK=2 disagree. .*one of the two",
        ),
        ({**SLURM, "PMI_RANK": "1"}, "PMI_RANK=1 and SLURM_PROCID=3 disagree"),
        ({**TORCHRUN, "RANK": "two"}, "RANK is 'two', expected a whole number"),
        ({**TORCHRUN, "RANK": "4"}, "RANK=4 and WORLD_SIZE=4 disagree.* from 0"),
        (
            {**TORCHRUN, "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"},
            "LOCAL_RANK=2 and LOCAL_WORLD_SIZE=2 disagree",
        ),
    ],
)
def test_an_environment_without_a_rank_is_refused_in_its_own_words(env, words):
    env = {name: value for name, value in env.items() if value is not None}
    with pytest.raises(UsageError, match=words):
        resolve_rank(env)


def test_uneven_nodes_of_slurm_are_counted():
    env = SLURM | {"SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2),2"}
    assert resolve_rank(env) == ResolvedRank("Slurm", 3, 4, 1, 2, 2)


# --- commands


def test_commands_for_two_nodes_with_two_ranks_each():
    lines = {
        name: command(name, "train.py", nodes=2, ranks_per_node=2) for name in LAUNCHERS
    }
    meet = "MASTER_ADDR=node0 -x MASTER_PORT=29500"
    assert lines["torchrun"] == (
        "torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d"
        " --rdzv-endpoint=node0:29500 --rdzv-id=job1 train.py"
    )
    assert lines["Open MPI"] == (
        "mpirun -np 4 --host node0:2,node1:2 --map-by ppr:2:node --bind-to none"
        f" -x {meet} python train.py"
    )
    assert (
        lines["Intel MPI"]
        == lines["MPICH"]
        == (
            "mpirun -n 4 -ppn 2 -hosts node0,node1 -genv MASTER_ADDR node0"
            " -genv MASTER_PORT 29500 python train.py"
        )
    )
    start = "srun --nodes=2 --ntasks-per-node=2 --kill-on-bad-exit=1 python train.py"
    assert start in lines["srun"]
    assert "--nrs 2 --rs_per_host 1 --tasks_per_rs 2" in lines["jsrun"]
    assert all(
        "MASTER_ADDR" in line for name, line in lines.items() if name != "torchrun"
    )


def test_one_node_meets_on_itself():
    assert command("torchrun", "train.py", ranks_per_node=4) == (
        "torchrun --nnodes=1 --nproc-per-node=4 --standalone train.py"
    )
    assert "--host localhost:4" in command("Open MPI", "train.py", ranks_per_node=4)


@pytest.mark.parametrize(
    ("launcher", "binding"),
    [
        ("Open MPI", "--map-by ppr:2:node:PE=8 --bind-to core"),
        ("Intel MPI", "-genv I_MPI_PIN_DOMAIN 8"),
        ("MPICH", "-bind-to core:8"),
        ("srun", "--cpus-per-task=8"),
        ("jsrun", "--bind packed:8"),
    ],
)
def test_cores_bind_ranks(launcher, binding):
    line = command(launcher, "train.py", nodes=2, ranks_per_node=2, cores=8)
    assert binding in line and "none" not in line


def test_arguments_reach_the_script_as_they_are():
    line = command("torchrun", "train.py --name 'a; b' --dir $HOME", restarts=3)
    assert shlex.split(line)[-5:] == ["train.py", "--name", "a; b", "--dir", "$HOME"]
    assert "'$HOME'" in line and "--max-restarts=3" in line
    assert line.startswith("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun ")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"launcher": "openmpi"}, "launcher 'openmpi' is not known.*'Open MPI'"),
        ({"nodes": 0}, "nodes is 0, expected a whole number, 1 or more"),
        ({"ranks_per_node": 2.0}, "ranks_per_node is 2.0"),
        ({"nodes": True}, "nodes is True"),
        ({"cores": 0}, "cores is 0"),
        ({"script": ""}, "cannot start ''"),
        ({"script": "train.py 'a"}, "each quote with its other end"),
        ({"script": "train.py\nrm -r x"}, "in one line"),
        ({"hosts": ["a"], "nodes": 2}, "hosts are .*, expected a list with 2 names"),
        ({"hosts": "ab", "nodes": 2}, "expected a list"),
        ({"hosts": ["a; b"]}, "hosts is 'a; b', expected letters and digits"),
        ({"scheduler": "slurms"}, "scheduler 'slurms' is not known.*'slurm'"),
        ({"launcher": "srun", "restarts": 1}, "srun does not restart ranks"),
    ],
)
def test_what_no_launcher_can_start_is_refused(changed, words):
    asked = {"launcher": "torchrun", "script": "train.py"} | changed
    with pytest.raises(UsageError, match=words):
        command(asked.pop("launcher"), asked.pop("script"), **asked)


# --- job scripts


def script(scheduler, launcher, **changed):
    values = {"nodes": 2, "gpus": 2, "cores": 8, "memory": 64, "minutes": 90}
    values |= {"account": "ml", "queue": "gpu", "setup": ["module load cuda"]}
    return job_script(
        scheduler, "train.py --x 'a b'", launcher=launcher, **values | changed
    )


@pytest.mark.parametrize(("scheduler", "launcher"), JOBS)
def test_bash_reads_a_job_script(scheduler, launcher):
    texts = [script(scheduler, launcher), script(scheduler, launcher, gpus=0)]
    if scheduler == "slurm" and launcher in ("srun", "torchrun"):
        texts.append(script(scheduler, launcher, warn=90).replace("USR1@90", ""))
    for text in texts:
        bash = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True
        )
        assert (bash.returncode, bash.stderr) == (0, "")
        assert "@" not in text and "\n\n" not in text.replace("cuda", "")


@lacks.needs("shellcheck")
def test_shellcheck_finds_nothing_in_a_job_script(tmp_path):
    texts = [script(*job) for job in JOBS]
    texts += [script("slurm", name, warn=90) for name in ("srun", "torchrun")]
    paths = [text.save(tmp_path / f"{n}.sh") for n, text in enumerate(texts)]
    check = subprocess.run(["shellcheck", *paths], capture_output=True, text=True)
    assert (check.returncode, check.stdout) == (0, "")


def test_a_job_of_slurm_asks_for_what_torchrun_needs():
    text = script("slurm", "torchrun", restarts=3)
    options = re.findall("#SBATCH --(.+)", text)
    assert options == [
        *("job-name=train", "account=ml", "partition=gpu", "nodes=2"),
        # one agent on each node, with the cores of both ranks
        *("ntasks-per-node=1", "cpus-per-task=16", "gpus-per-node=2"),
        *("mem=64G", "time=01:30:00", "output=%x-%j.out"),
    ]
    agents = "srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=16"
    agents += " --kill-on-bad-exit=1"
    assert f"{agents} \\\n    torchrun --nnodes=2 --nproc-per-node=2" in text
    assert "--max-restarts=3" in text and "OMP_NUM_THREADS=8" in text
    # pytorch issue 135712: ranks of a later start find the addresses of dead ones
    assert "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 " in text
    assert "SHARE_RDZV" not in script("slurm", "torchrun")


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_a_job_that_is_warned_before_its_end_has_more_lines_and_else_the_same(launcher):
    plain, warned = script("slurm", launcher), script("slurm", launcher, warn=120)
    lines = ["signal=USR1@120", "requeue", "open-mode=append"]
    more = [f"#SBATCH --{line}" for line in lines]
    if launcher == "torchrun":  # it hands the signal on, and waits for its ranks
        more += ["export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=110  # seconds in which ranks"]
        handled = "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
        assert f"    torchrun {handled} \\\n        --nnodes=2" in warned
        warned = JobScript(warned.replace(f"{handled} \\\n        ", ""))
    left = [line for line in warned.splitlines() if line not in plain.splitlines()]
    assert [line.partition(" may")[0] for line in left] == more
    assert [line for line in warned.splitlines() if line not in left] == (
        plain.splitlines()
    )


def test_a_job_of_lsf_asks_for_whole_gpus():
    text = script("lsf", "Open MPI")
    assert '#BSUB -gpu "num=2:j_exclusive=yes"' in text and "#BSUB -n 4\n" in text
    assert '"span[ptile=2] affinity[core(8)] rusage[mem=64GB]"' in text
    assert "#BSUB -W 01:30" in text and "--host" not in text
    assert 'blaunch -z "$(' in script("lsf", "torchrun")
    whole = script("lsf", "jsrun")
    options = [line.split()[1] for line in whole.split("\n") if line[:5] == "#BSUB"]
    assert options == ["-J", "-P", "-q", "-nnodes", "-W", "-o"]


def test_what_is_not_asked_for_has_no_line():
    text = job_script("slurm", "train.py", gpus=0)
    assert "account" not in text and "gpus" not in text and "\n\n" not in text
    assert "-gpu" not in job_script("lsf", "train.py", gpus=0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scheduler": "pbs"}, "scheduler 'pbs' is not known: there are slurm, lsf"),
        ({"launcher": "jsrun"}, "launcher in a slurm job 'jsrun'"),
        ({"nodes": 0}, "nodes is 0"),
        ({"gpus": -1}, "gpus is -1, expected a whole number, 0 or more"),
        ({"minutes": "60"}, "minutes is '60'"),
        ({"account": 'a"b'}, "account is 'a\"b', expected letters and digits"),
        ({"queue": "gpu\n#SBATCH --mem=0"}, "queue is"),
        ({"setup": "module load cuda"}, "expected a list of lines"),
        ({"setup": ["a\nb"]}, "expected a list of lines"),
        ({"warn": 10}, "warn is 10, expected a whole number, 11 or more"),
        ({"warn": 120, "minutes": 2}, "warn is 120 seconds, but the job has 120"),
        ({"warn": 120, "launcher": "MPICH"}, "srun and torchrun .* not those of MPICH"),
        ({"warn": 120, "scheduler": "lsf"}, "not those of torchrun in a lsf job"),
    ],
)
def test_a_job_that_cannot_be_is_refused(changed, words):
    asked = {"scheduler": "slurm"} | changed
    with pytest.raises(UsageError, match=words):
        job_script(asked.pop("scheduler"), "train.py", **asked)


def test_a_job_script_shows_itself_to_be_copied():
    text = script("lsf", "torchrun")
    page = text._repr_html_()
    assert repr(text) == str(text) and "<pre" in page and "&quot;num=2" in page
    assert 'download="train.lsf"' in page and "bsub &lt; train.lsf" in page


# --- the form


def test_the_form_prints_a_script_where_there_is_no_notebook(capsys):
    forms.form()
    assert capsys.readouterr().out.startswith("#!/bin/bash\n#SBATCH")


def test_the_script_follows_the_form():
    *fields, shown = forms._box().children
    named = {field.description: field for field in fields}
    assert "4 ranks on 2 nodes, by torchrun" in shown.value
    named["nodes"].value = 3
    assert "6 ranks on 3 nodes" in shown.value and "--nodes=3" in shown.value
    named["scheduler"].value = "lsf"
    assert "#BSUB" in shown.value and "jsrun" in named["launcher"].options
    named["launcher"].value = "MPICH"
    named["script and arguments"].value = "train.py 'a"
    assert "No script: cannot start" in shown.value and "<pre" not in shown.value


def test_the_form_has_a_script_where_there_are_no_widgets():
    with (
        mock.patch.object(forms, "in_notebook", return_value=True),
        mock.patch("IPython.display.display") as shown,
    ):
        forms.form()
    [bundle], _ = shown.call_args
    assert "#SBATCH" in bundle["text/html"] and "#SBATCH" in bundle["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in bundle


# --- launchers that are here

PROBE = """
from course_lib.clusters.environments import resolve_rank
found = resolve_rank()
print(found.launcher, found.rank, found.world_size, found.local_rank, sep=",")
"""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(
            "mpirun.openmpi --allow-run-as-root --oversubscribe",
            "Open MPI",
            marks=lacks.needs("OpenMPI"),
        ),
        pytest.param("mpirun.mpich", "MPICH", marks=lacks.needs("MPICH")),
    ],
)
def test_the_ranks_of_an_mpi_that_is_here_find_themselves(program, name):
    words = program.split()
    # as from a shell, not from a rank or a job
    names = ("PATH", "HOME", "PYTHONPATH", "TMPDIR")
    env = {key: os.environ[key] for key in names if key in os.environ}
    done = subprocess.run(
        [*words, "-n", "2", sys.executable, "-c", PROBE],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert sorted(done.stdout.split("\n")) == ["", f"{name},0,2,0", f"{name},1,2,1"]


def test_launchers_that_are_here_are_run_and_others_are_recorded(monkeypatch):
    rows = {row[0]: row for row in compare_launchers().rows}
    assert list(rows) == ["torchrun", "Open MPI", "MPICH", "Slurm", "jsrun"]
    for name, program in (("Open MPI", "openmpi"), ("MPICH", "mpich")):
        here = shutil.which(f"mpirun.{program}")
        assert rows[name][-1].startswith("run here" if here else "recorded: ")
        assert rows[name][2].endswith("=2" if here else "=4")
    monkeypatch.setenv("PATH", "")
    missing = {row[0]: row[-1] for row in compare_launchers().rows}
    assert missing["MPICH"].endswith("to run it here: sudo apt-get install mpich")
    assert "Slurm 22.05.8" in missing["Slurm"] and "constructed" in missing["jsrun"]


def test_a_launcher_that_cannot_start_ranks_is_shown_as_recorded(monkeypatch, tmp_path):
    program = tmp_path / "mpirun.mpich"
    program.write_text(
        "#!/bin/sh\ncase $1 in --version) echo HYDRA;; *) exit 1;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (row,) = (row for row in compare_launchers().rows if row[0] == "MPICH")
    assert row[-1].startswith("recorded: MPICH")


def test_a_command_gives_its_lines_and_ends_with_what_interrupts_it(monkeypatch):
    assert shell.lines("echo one; echo two >&2") == ["one", "two"]
    started = []

    class Interrupted(subprocess.Popen):
        def communicate(self, *args, **kwargs):
            started.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(shell.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        shell.lines("sleep 600; true")
    assert started[0].returncode == -signal.SIGTERM
