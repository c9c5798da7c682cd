"""The doctor: what it reads from a machine, and how it says what is missing."""

import functools
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from course_lib.checkup import Checkup, Finding, checks
from course_lib.system import gpus
from course_lib.system import host as machine

# recorded with one GPU (benchmarks/gpu/recorded), but for the second line
IDLE = "NVIDIA H100 80GB HBM3, 81559, 0, 0, Default, Disabled"
TWO_GPUS = f"""\
0, GPU-1a2b3c4d-0000-1111-2222-333344445555, {IDLE}
1, GPU-9f8e7d6c-0000-1111-2222-333344445555, {IDLE}
"""
NAMES = {
    *("Python", "torch", "gloo", "nccl", "JupyterLab", "GPUs", "cores", "memory"),
    *("/dev/shm", "OpenMPI", "bwrap", "Chromium"),
}
# a lack of everything, with the longest words that the doctor has
LONG = Finding(
    "JupyterLab",
    "1 × NVIDIA RTX 6000 Ada Generation, 48 GiB; 1 × NVIDIA H100 80GB HBM3, 80 GiB",
    "its CUDA 13.0 does not start: the GPUs are not used",
    "a newer NVIDIA driver: nvidia-smi names yours",
)


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A machine with no programs but those that a test puts into the result."""
    answers = {}

    def reply(*command, seconds=10):
        return machine.Reply(answers.get(command[0], ""), command[0] in answers)

    monkeypatch.setattr(machine, "reply", reply)
    monkeypatch.setattr(gpus, "driver_cuda", lambda: None)
    monkeypatch.setattr(gpus, "survey", functools.partial(gpus.survey, tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: name in answers and f"/x/{name}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return answers


def row(name):
    return next(row for row in checks() if row.name == name)


def fake_torch(monkeypatch, cuda):
    """A torch built for CUDA (or not) in place of the real one; nothing is loaded."""
    here = SimpleNamespace(
        is_available=lambda: True,
        is_gloo_available=lambda: True,
        is_nccl_available=lambda: bool(cuda),
    )
    version = SimpleNamespace(cuda=cuda)
    torch = SimpleNamespace(__version__="2.13.0", version=version, distributed=here)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", here)


def command(*args, before=""):
    """`python -m course_lib` in a process of its own, after the lines in `before`."""
    code = f"import runpy, sys\n{before}\nsys.argv[1:] = {args!r}\n"
    code += "runpy.run_module('course_lib', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )


def test_there_is_one_row_for_each_thing():
    names = [row.name for row in checks()]
    assert len(names) == len(NAMES)
    assert set(names) == NAMES


def test_a_bare_machine_learns_the_cost_and_the_way_to_each_missing_thing(host):
    missing = [row for row in checks() if not row.found]
    assert {"GPUs", "OpenMPI", "bwrap", "Chromium"} <= {row.name for row in missing}
    assert all(row.cost and row.remedy for row in missing)


def test_what_is_found_and_costs_nothing_needs_no_remedy(host):
    assert all(bool(row.cost) == bool(row.remedy) for row in checks())
    assert row("Python") == Finding("Python", sys.version.split()[0])


def test_two_gpus_are_read_from_nvidia_smi():
    first, second = gpus.parse_gpus(TWO_GPUS)
    assert (first.index, first.name, first.memory) == (
        "0",
        "NVIDIA H100 80GB HBM3",
        81559,
    )
    assert second.uuid.startswith("GPU-9f8e7d6c")


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "NVIDIA-SMI has failed"]
)
def test_no_gpu_is_read_where_nvidia_smi_lists_none(text):
    assert gpus.parse_gpus(text) == []


def test_a_gpu_that_hides_its_memory_still_counts():
    (gpu,) = gpus.parse_gpus("0, GPU-5, NVIDIA GB10, [N/A]\n")
    assert (gpu.name, gpu.memory) == ("NVIDIA GB10", 0)


def test_two_kinds_of_gpus_are_counted_apart(host):
    host["nvidia-smi"] = TWO_GPUS + "2, GPU-5, NVIDIA GB10, [N/A]\n"
    found = "2 × NVIDIA H100 80GB HBM3, 80 GiB; 1 × NVIDIA GB10"
    assert row("GPUs") == Finding("GPUs", found)


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        (None, ["0", "1"]),
        ("", []),
        ("-1", []),
        ("1", ["1"]),
        ("1, 0", ["1", "0"]),
        ("GPU-9f8e", ["1"]),
        ("0,7,1", ["0"]),
    ],
)
def test_cuda_visible_devices_hides_gpus_as_cuda_does(variable, indices):
    seen = gpus.view(gpus.parse_gpus(TWO_GPUS), variable)
    assert [gpu.index for gpu in seen.gpus] == indices


def test_two_gpus_with_their_memory_cost_nothing(host):
    host["nvidia-smi"] = TWO_GPUS
    assert row("GPUs") == Finding("GPUs", "2 × NVIDIA H100 80GB HBM3, 80 GiB")


def test_one_gpu_means_virtual_gpus_for_several_devices(host):
    host["nvidia-smi"] = TWO_GPUS.splitlines()[0]
    assert row("GPUs").found == "1 × NVIDIA H100 80GB HBM3, 80 GiB"
    assert "virtual GPUs" in row("GPUs").cost


def test_a_hidden_gpu_is_told_from_a_missing_one(host, monkeypatch):
    host["nvidia-smi"] = TWO_GPUS
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert row("GPUs").cost == "CUDA_VISIBLE_DEVICES hides 1 of 2"
    assert row("GPUs").remedy == "unset CUDA_VISIBLE_DEVICES"


def test_a_torch_built_for_cpus_beside_gpus_is_said(host, monkeypatch):
    host["nvidia-smi"] = TWO_GPUS
    fake_torch(monkeypatch, cuda=None)
    assert row("torch").cost == "built for CPUs: the GPUs are not used"


def test_another_mpi_is_not_open_mpi(host):
    host["mpirun"] = "Intel(R) MPI Library for Linux* OS, Version 2021.9"
    assert not row("OpenMPI").found
    host["mpirun"] = "mpirun (Open MPI) 4.1.4\n\nReport bugs to ..."
    assert row("OpenMPI").found == "4.1.4"


def test_a_sandbox_that_may_not_start_is_told_from_a_missing_one(host):
    host["bwrap"] = ""
    assert row("bwrap").found == "may not start here"
    host["bwrap"] = "works\n"
    assert row("bwrap") == Finding("bwrap", "works")


def test_an_empty_shared_memory_names_the_flag_of_docker(monkeypatch):
    size = SimpleNamespace(total=64 * 2**20, used=0, free=64 * 2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda path: size)
    assert row("/dev/shm").found == "0.06 of 0.06 GiB free"
    assert "--shm-size" in row("/dev/shm").remedy


def write(root, contents):
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


V2 = {
    "proc/self/cgroup": "0::/user/job",
    "sys/fs/cgroup/user/cpu.max": "150000 100000",
    "sys/fs/cgroup/user/job/cpu.max": "max 100000",
    "sys/fs/cgroup/user/memory.max": "max",
    "sys/fs/cgroup/user/job/memory.max": str(2**20),
}
# the path is the host's; inside the container only the root of the tree exists
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/docker/ab12\n4:memory:/docker/ab12\n0::/",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": str(2**20),
}


@pytest.mark.parametrize("contents", [V2, V1])
def test_a_container_limits_cores_and_memory(tmp_path, contents):
    root = write(tmp_path, contents)
    assert machine.core_quota(root) == 1.5
    assert machine.usable_cores(root) == 1
    assert machine.usable_memory(root) == 2**20


FREE_V1 = V1 | {
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
}


@pytest.mark.parametrize("contents", [{}, FREE_V1])
def test_without_a_limit_the_machine_counts(tmp_path, contents):
    root = write(tmp_path, contents)
    assert machine.core_quota(root) is None
    assert machine.usable_cores(root) == len(os.sched_getaffinity(0))
    assert machine.usable_memory(root) > 2**28


def test_a_command_that_is_missing_fails_or_hangs_answers_nothing():
    assert machine.answer("no-such-program") == ""
    assert machine.answer(sys.executable, "-c", "print(1); exit(1)") == ""
    code = "import time; print(1, flush=True); time.sleep(60)"
    assert machine.answer(sys.executable, "-c", code, seconds=0.5) == ""


def test_the_table_fits_a_hundred_columns_and_loses_no_word():
    text = str(Checkup([LONG, *checks()]))
    assert max(map(len, text.splitlines())) <= 100
    assert {*LONG.found.split(), *LONG.cost.split()} <= set(text.split())


def test_a_missing_thing_reads_missing_and_is_bold_only_in_colour():
    table = Checkup([Finding("bwrap", "", "no sandbox", "apt-get install bubblewrap")])
    assert "\nbwrap  missing  no sandbox     apt-get install bubblewrap\n" in str(table)
    assert "\x1b[1mmissing\x1b[0m" in table.text(color=True)


def test_the_notebook_table_escapes_what_it_found():
    shown = Checkup(
        [Finding("torch", "", "no module <torch>", "make setup")]
    )._repr_html_()
    assert "no module &lt;torch&gt;" in shown
    assert ">missing</b>" in shown


@pytest.mark.parametrize(("name", "lacking"), [("gloo", ["gloo"]), ("bwrap", [])])
def test_only_necessary_things_are_lacking(name, lacking):
    table = Checkup([Finding("torch", "2.13.0"), Finding(name, "", "cost", "remedy")])
    assert table.lacking == lacking
    assert ("Necessary and missing: gloo" in str(table)) is bool(lacking)


def test_the_command_succeeds_where_everything_necessary_is_here():
    done = command("doctor")
    assert done.returncode == 0, done.stderr
    assert "Everything necessary is here." in done.stdout
    assert "\x1b" not in done.stdout


def test_the_command_runs_without_torch_and_says_so_by_its_status():
    done = command("doctor", before="sys.modules['torch'] = None")
    assert done.returncode == 1, done.stderr
    assert "Necessary and missing: torch, gloo." in done.stdout


def test_the_doctor_asks_about_gpus_without_touching_cuda_itself(tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat <<END\n{TWO_GPUS}END\n")
    smi.chmod(0o755)
    before = (
        f"import os, torch\nos.environ['PATH'] = '{tmp_path}:' + os.environ['PATH']\n"
    )
    before += "torch.version.cuda = '13.0'\nos.environ.pop('CUDA_VISIBLE_DEVICES', 0)\n"
    # every question to CUDA now raises TypeError
    before += "for name in dir(torch.cuda): setattr(torch.cuda, name, None)"
    done = command("doctor", before=before)
    assert done.returncode == 0, done.stderr
    assert "2 × NVIDIA H100 80GB" in done.stdout


@pytest.mark.parametrize(("args", "words"), [([], "commands:"), (["cure"], "'doctor'")])
def test_a_command_that_does_not_exist_lists_those_that_do(args, words):
    done = command(*args)
    assert done.returncode == 2
    assert words in done.stderr


def test_run_hands_everything_after_it_to_the_runner():
    fake = "import types; runner = types.ModuleType('course_lib.authoring.execute')\n"
    fake += "runner.main = lambda args: print(args) or 7\n"
    fake += "import course_lib.authoring as home; home.execute = runner"
    fake += "; sys.modules['course_lib.authoring.execute'] = runner"
    done = command("run", "--save", "a.ipynb", "-h", before=fake)
    assert done.stdout == "['--save', 'a.ipynb', '-h']\n"
    assert done.returncode == 7
