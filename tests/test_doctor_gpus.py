"""GPUs that cannot be used as they are: what the doctor says, and that all goes on.

What nvidia-smi prints in such states was not seen on a machine. It is written by
NVIDIA's documentation, which each text names; a fake nvidia-smi on PATH prints it.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import warnings

import pytest
import torch

from course_lib.accelerators import missing, selection
from course_lib.accelerators.virtual import machine
from course_lib.checkup import Finding, cuda_rows, gpu_row
from course_lib.system import gpus, host, torch_versions

A100 = "NVIDIA A100-SXM4-40GB, 40960"
IDLE = f"{A100}, 0, 0, Default, Disabled"
TWO = f"0, GPU-5d5ba0d6, {IDLE}\n1, GPU-77c1e5ab, {IDLE}\n"
# by the MIG User Guide, "Getting Started with MIG", "Running CUDA Applications on
# Bare-Metal": https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
MIG = f"0, GPU-5d5ba0d6, {A100}, 25, [N/A], Default, Enabled\n"
MIG_LIST = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb      Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
"""
# by the manual of nvidia-smi, "RETURN VALUE", and by the texts of NVML's errors
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make"
    " sure that the latest NVIDIA driver is installed and running.\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"
# by torch's source, torch/csrc/cuda/Module.cpp and c10/cuda/CUDAFunctions.cpp
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 12020). Please update"
    " your GPU driver by downloading and installing a new version from the URL: …"
)
FOUND_NONE = "Found no NVIDIA driver on your system. Please check that you have …"

RENT = "two NVIDIA GPUs, also rented: see docs/setup.md"
UNSET = "unset CUDA_VISIBLE_DEVICES"
ONE = "lessons with several devices use virtual GPUs"
NONE = f"ranks run on CPUs; {ONE}"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Makes a program nvidia-smi, the only one on PATH beside the shell's."""

    def make(query, listing="", *, code=0):
        (tmp_path / "query").write_text(query)
        (tmp_path / "listing").write_text(listing)
        program = tmp_path / "nvidia-smi"
        program.write_text(
            "#!/bin/sh\n"
            f"if [ $1 = -L ]; then cat {tmp_path}/listing; exit; fi\n"
            f"cat {tmp_path}/query; exit {code}\n"
        )
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return make


@pytest.fixture
def root(tmp_path):
    """The files of a system, for drivers and cards."""
    return tmp_path / "root"


def row(root, variable=None):
    return gpu_row.finding(gpus.survey(root), variable)


# --- nvidia-smi that fails


@pytest.mark.parametrize(
    ("text", "code", "said", "remedy"),
    [
        (
            NO_DRIVER,
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA"
            " driver",
            "install the NVIDIA driver, or start it: sudo modprobe nvidia",
        ),
        (
            MISMATCH,
            18,
            "Failed to initialize NVML: Driver/library version mismatch",
            "start the machine anew: its driver was replaced",
        ),
        (
            "Failed to initialize NVML: Unknown Error\n",
            255,
            "Failed to initialize NVML: Unknown Error",
            "start the container anew, or the machine",
        ),
        (
            "No devices were found\n",
            6,
            "No devices were found",
            "in a container: docker run --gpus all",
        ),
        (
            "No devices were found\n",
            0,
            "No devices were found",
            "in a container: docker run --gpus all",
        ),
        ("", 1, "it does not answer", "start the machine anew"),
        ("GPU is lost\n", 15, "GPU is lost", "see docs/setup.md"),
    ],
)
def test_what_nvidia_smi_complains_of_is_said(smi, root, text, code, said, remedy):
    smi(text, code=code)
    assert row(root) == Finding("GPUs", "", f"nvidia-smi: {said}: {NONE}", remedy)


def test_a_driver_that_knows_of_no_slices_is_asked_again(smi, root, monkeypatch):
    asked = []

    def reply(*command, seconds=10):
        asked.append(command)
        if "mig.mode.current" in command[1]:
            text = 'Field "mig.mode.current" is not a valid field to query.\n'
            return host.Reply(text, False)
        return host.Reply(TWO.replace(", Disabled", ""), True)

    smi("")
    monkeypatch.setattr(host, "reply", reply)
    assert row(root) == Finding("GPUs", "2 × NVIDIA A100-SXM4-40GB, 40 GiB")
    assert len(asked) == 2


# --- no nvidia-smi


def without_smi(monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def device_file(root):
    (root / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (root / "dev" / name).touch()


def test_gpus_without_nvidia_smi_are_counted_by_cuda(monkeypatch, tmp_path, root):
    without_smi(monkeypatch, tmp_path)
    device_file(root)
    survey = gpus.survey(root)
    assert survey.has_driver and survey.devices == 1 and not survey.gpus
    told = {"gpus": [["0", "GPU-5d5ba0d6", "NVIDIA A100", 40960]], "trouble": ""}
    monkeypatch.setattr(gpus, "survey", lambda: survey)
    monkeypatch.setattr(cuda_rows, "_built_for", lambda: "13.0")
    monkeypatch.setattr(host, "answer", lambda *_, seconds: json.dumps(told))
    survey, _ = cuda_rows.survey_gpus()
    assert gpu_row.finding(survey, None) == Finding(
        "GPUs",
        "1 × NVIDIA A100, 40 GiB",
        f"without nvidia-smi nobody sees who else uses them; {ONE}",
        f"docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility; {RENT}",
    )


def test_files_of_a_driver_alone_are_said(monkeypatch, tmp_path, root):
    without_smi(monkeypatch, tmp_path)
    device_file(root)
    assert row(root) == Finding(
        "GPUs",
        "",
        f"1 in /dev that neither nvidia-smi nor torch can list: {NONE}",
        "in a container: docker run --gpus all; else: install the driver",
    )


@pytest.mark.parametrize(
    ("vendor", "kind", "cost"),
    [
        ("0x10de", "0x030200", f"an NVIDIA GPU without a driver: {NONE}"),
        ("0x10de", "0x040300", NONE),  # the sound of one
        ("0x1002", "0x030000", NONE),
    ],
)
def test_a_card_without_a_driver_is_said(
    monkeypatch, tmp_path, root, vendor, kind, cost
):
    without_smi(monkeypatch, tmp_path)
    folder = root / "sys/bus/pci/devices/0000:17:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")
    found = row(root)
    assert (found.found, found.cost) == ("", cost)
    install = "install the NVIDIA driver; in a container: docker run --gpus all"
    assert found.remedy == (RENT if cost == NONE else install)


# --- busy, full, closed


def state(*rest):
    """A line of nvidia-smi for each GPU: memory used, busy, compute mode."""
    return "".join(
        f"{index}, GPU-{index}, {A100}, {text}, Disabled\n"
        for index, text in enumerate(rest)
    )


OTHERS = "nvidia-smi shows whose programs run;"


@pytest.mark.parametrize(
    ("states", "cost", "remedy"),
    [
        (
            ["40536, 3, Default", "0, 0, Default"],
            "GPU 0 is full: 40 of 40 GiB are in use, so lessons run out of memory",
            f"{OTHERS} CUDA_VISIBLE_DEVICES=1 takes the others",
        ),
        (
            ["300, 97, Default", "300, 99, Default"],
            "GPUs 0 and 1 are busy 97 to 99 % of the time, so times here are too long",
            f"{OTHERS} wait for them",
        ),
        (
            ["0, 0, Prohibited", "0, 0, Default"],
            "GPU 0 is in compute mode Prohibited: nothing may run there",
            "sudo nvidia-smi -c DEFAULT",
        ),
        (
            ["0, 0, Exclusive_Process", "0, 0, Exclusive_Process"],
            "GPUs 0 and 1 are in compute mode Exclusive_Process: one process only,"
            " notebook or rank, may use each",
            "sudo nvidia-smi -c DEFAULT",
        ),
        (["20000, 49, Default", "0, [N/A], Default"], "", ""),
    ],
)
def test_gpus_that_others_use_or_that_are_closed_are_said(
    smi, root, states, cost, remedy
):
    smi(state(*states))
    found = row(root)
    assert (found.cost, found.remedy) == (cost, remedy)
    assert found.found == "2 × NVIDIA A100-SXM4-40GB, 40 GiB"


def test_a_gpu_that_is_hidden_may_be_full(smi, root):
    smi(state("40536, 99, Default", "0, 0, Default", "0, 0, Default"))
    assert row(root, "1,2").cost == ""


# --- CUDA_VISIBLE_DEVICES


@pytest.mark.parametrize(
    ("variable", "count", "cost", "remedy"),
    [
        ("", 0, f"CUDA_VISIBLE_DEVICES is empty, which hides all 2; {NONE}", UNSET),
        ("-1", 0, f"CUDA_VISIBLE_DEVICES hides 2 of 2; {NONE}", UNSET),
        ("0,-1,1", 1, "CUDA_VISIBLE_DEVICES hides 1 of 2", UNSET),
        (
            "7",
            0,
            "CUDA_VISIBLE_DEVICES names 7, which is not here: a process sees 0 of 2;"
            f" {NONE}",
            f"names as nvidia-smi -L has them, or {UNSET}",
        ),
        (
            "0,9,1",
            1,
            "CUDA_VISIBLE_DEVICES names 9, which is not here: a process sees 1 of 2",
            f"names as nvidia-smi -L has them, or {UNSET}",
        ),
        (
            "GPU-beef",
            0,
            "CUDA_VISIBLE_DEVICES names GPU-beef, which is not here: a process sees 0"
            f" of 2; {NONE}",
            f"names as nvidia-smi -L has them, or {UNSET}",
        ),
        (
            "1,1",
            0,
            f"CUDA_VISIBLE_DEVICES names 1 twice, which hides all 2; {NONE}",
            UNSET,
        ),
        ("1,0", 2, "", ""),
    ],
)
def test_a_variable_that_hides_gpus_is_said(smi, root, variable, count, cost, remedy):
    smi(TWO)
    found = f"{count} × NVIDIA A100-SXM4-40GB, 40 GiB" if count else ""
    assert row(root, variable) == Finding("GPUs", found, cost, remedy)


# --- MIG slices

SLICES = (
    "MIG slices: 3g.20gb, 1g.5gb: a process sees one, and nccl joins no two of one GPU;"
    f" {ONE}"
)
CHOOSE = "choose one: CUDA_VISIBLE_DEVICES=MIG-… of nvidia-smi -L"


@pytest.mark.parametrize(
    ("variable", "size"),
    [(None, "3g.20gb"), ("0", "3g.20gb"), ("MIG-cba663e8", "1g.5gb")],
)
def test_of_slices_a_process_sees_one(smi, root, variable, size):
    smi(MIG, MIG_LIST)
    found = f"1 × MIG {size} of NVIDIA A100-SXM4-40GB"
    assert row(root, variable) == Finding("GPUs", found, SLICES, CHOOSE)


def test_a_slice_that_is_not_there_is_said(smi, root):
    smi(MIG, MIG_LIST)
    assert row(root, "MIG-0000").cost == (
        "CUDA_VISIBLE_DEVICES names MIG-0000, which is not here: a process sees 0 of 1;"
        f" {SLICES}; {NONE}"
    )


def test_beside_a_slice_no_whole_gpu_is_seen(smi, root):
    smi(MIG + f"1, GPU-77c1e5ab, {IDLE}\n", MIG_LIST)
    assert row(root).found == "1 × MIG 3g.20gb of NVIDIA A100-SXM4-40GB"


def test_a_gpu_in_mig_mode_without_a_slice_is_said(smi, root):
    smi(MIG, MIG_LIST.splitlines()[0])
    assert row(root) == Finding(
        "GPUs",
        "",
        f"GPU 0 is in MIG mode without a slice: CUDA does not list it; {NONE}",
        "ask its owner for a MIG slice, or for the whole GPU",
    )


# --- torch


RANGE = torch_versions.Range((2, 11), (2, 16))
HERE = gpus.Survey(gpus.parse_gpus(TWO))
NOWHERE = gpus.Survey(has_smi=False)


def torch_row(version="2.13.0", build="13.0", *, survey=HERE, trouble=""):
    return cuda_rows._torch(version, build, survey, cuda_rows.Cuda(trouble=trouble))


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(torch_versions, "supported", lambda: RANGE)


def test_a_torch_too_old_is_missing():
    assert torch_row("2.9.1+cu128") == Finding(
        "torch",
        "",
        "2.9.1+cu128 is too old, the course needs 2.11 to 2.15",
        'pip install "torch>=2.11,<2.16"',
    )


NEW = "not tested with this course: tested are 2.11 to 2.15"
IF = 'if a lesson fails: pip install "torch>=2.11,<2.16"'


def test_a_torch_too_new_is_no_failure():
    assert torch_row("2.16.0") == Finding("torch", "2.16.0", NEW, IF)


def test_a_torch_of_unknown_range_is_taken(monkeypatch):
    monkeypatch.setattr(torch_versions, "supported", lambda: None)
    assert torch_row("1.0.0") == Finding("torch", "1.0.0")


@pytest.mark.parametrize(
    ("build", "trouble", "cost", "remedy"),
    [
        ("13.0", "", "", ""),
        (
            None,
            "",
            "built for CPUs: the GPUs are not used",
            "rm -rf .venv && make setup",
        ),
        (
            "13.0",
            TOO_OLD,
            "built for CUDA 13.0, the NVIDIA driver runs up to 12.2: the GPUs are not"
            " used",
            "a newer driver, or a torch for CUDA 12",
        ),
        (
            "13.0",
            FOUND_NONE,
            "its CUDA 13.0 finds no running NVIDIA driver: the GPUs are not used",
            "install or start it; in a container: docker run --gpus all",
        ),
        (
            "13.0",
            "Error 802: system not yet initialized",
            "its CUDA 13.0 does not start (Error 802: system not yet initialized): the"
            " GPUs are not used",
            "start Python anew, then the machine; nvidia-smi tells of its GPUs",
        ),
    ],
)
def test_a_build_that_does_not_fit_the_driver_is_said(build, trouble, cost, remedy):
    found = torch_row(build=build, trouble=trouble)
    assert found == Finding("torch", "2.13.0", cost, remedy)


def test_a_build_for_cuda_without_a_driver_is_said():
    assert torch_row(survey=NOWHERE) == Finding(
        "torch",
        "2.13.0",
        "built for CUDA 13.0, without an NVIDIA driver: it computes on CPUs",
        "none needed; with a GPU in this machine: install its driver",
    )


def test_two_lacks_of_torch_are_both_said():
    found = torch_row("2.16.0", None)
    assert found.cost == f"built for CPUs: the GPUs are not used; {NEW}"
    assert found.remedy == f"rm -rf .venv && make setup; {IF}"


def test_an_answer_of_cuda_that_does_not_come_is_said(monkeypatch):
    monkeypatch.setattr(host, "answer", lambda *_, seconds: "")
    assert cuda_rows._ask().trouble == "it ended without an answer"


def test_the_question_to_cuda_is_answered_by_any_torch():
    found = cuda_rows._ask()
    assert len(found.gpus) == torch.cuda.device_count() or found.trouble


# --- the driver, asked without CUDA


class Nvml:
    """As libnvidia-ml.so.1: the driver's CUDA, or an error's number."""

    def __init__(self, version, fails=0):
        self.version, self.fails, self.calls = version, fails, []

    def nvmlInit_v2(self):
        return self.fails

    def nvmlSystemGetCudaDriverVersion_v2(self, place):
        place._obj.value = self.version
        return 0

    def nvmlShutdown(self):
        self.calls.append("shutdown")


@pytest.fixture
def nvml(monkeypatch):
    """Has a driver of this version in place of the machine's."""

    def have(version, **more):
        library = Nvml(version, **more)
        monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
        gpus.driver_cuda.cache_clear()
        return library

    monkeypatch.setattr(gpus, "_given", [])
    yield have
    gpus.driver_cuda.cache_clear()


@pytest.mark.parametrize(
    ("version", "build", "is_outdated"),
    [
        (12020, "13.0", True),
        (12020, "12.8", False),  # a driver runs all of its major version
        (13010, "12.8", False),
        (12020, None, False),
    ],
)
def test_a_driver_is_too_old_by_its_major_version(nvml, version, build, is_outdated):
    nvml(version)
    assert gpus.is_outdated(build) is is_outdated


def test_a_driver_is_asked_once_and_let_go(nvml):
    library = nvml(12020)
    assert gpus.driver_cuda() == gpus.driver_cuda() == (12, 2)
    assert library.calls == ["shutdown"]


def test_without_a_driver_nothing_is_outdated(nvml):
    nvml(0, fails=9)
    assert gpus.driver_cuda() is None and not gpus.is_outdated("13.0")


def test_gpus_whose_driver_is_too_old_are_hidden_once_and_not_from_the_doctor(
    nvml, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    nvml(12020)
    with pytest.warns(UserWarning) as caught:
        gpus.hide_if_outdated("13.0")
    (warning,) = caught
    assert str(warning.message) == (
        "the NVIDIA driver is too old for this torch, which needs CUDA 13.0: ranks run"
        " on CPUs, and devices are virtual GPUs. cl.doctor() says more."
    )
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and gpus.variable() == "1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpus.hide_if_outdated("13.0")
    assert gpus.variable() == "1"


# --- the course goes on


@pytest.fixture
def counted(monkeypatch):
    """A machine whose GPUs are counted, though each use fails with these words."""

    def pretend(words):
        def touch(index):
            raise RuntimeError(words)

        monkeypatch.setattr(machine, "count", 0)
        monkeypatch.setattr(selection, "chosen", [])
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(selection, "_touch", touch)

    return pretend


def test_devices_are_virtual_where_real_ones_cannot_be_used(counted, capsys):
    counted("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCUDA …")
    assert [device.type for device in selection.devices(2)] == ["vgpu", "vgpu"]
    line = capsys.readouterr().out
    assert line.startswith("2 virtual GPUs: A100, 40 GB each, NVLink3.")
    assert line.endswith(
        " GPU 0 cannot be used (CUDA error: CUDA-capable device(s) is/are busy or"
        " unavailable): cl.doctor() says more.\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        TOO_OLD,
        FOUND_NONE,
        "No CUDA GPUs are available",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "Unexpected error from cudaGetDeviceCount(). Did you run … Error 802: …",
    ],
)
def test_a_rank_that_cannot_use_its_gpu_says_the_way_out(text, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert missing.help_ranks(text, 2) == (
        "CUDA cannot use a GPU here; cl.doctor() says why. Ranks run on CPUs after"
        ' os.environ["CUDA_VISIBLE_DEVICES"] = "".'
    )


GO_ON = """
import json, os, sys
import torch
import torch.distributed as dist
import course_lib as cl

def add(rank, world_size):
    dist.init_process_group("gloo")
    total = torch.tensor(rank + 1.0)
    dist.all_reduce(total)
    return total.item()

told = []
for query, variable in json.load(sys.stdin):
    if query is not None:
        open(sys.argv[1], "w").write(query)
    if variable is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = variable
    devices = [str(device) for device in cl.devices(2, quiet=True)]
    checkup = cl.doctor()
    costs = {row.name: row.cost for row in checkup.findings}
    told.append([devices, list(cl.launch(add, world_size=2)), costs, checkup.lacking])
assert not torch.cuda.is_initialized()
print(json.dumps(told))
"""


def go_on(folder, *states, **environ):
    """For each state of nvidia-smi and of the variable: what the doctor says."""
    script = folder / "go_on.py"
    script.write_text(GO_ON)
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "query")],
        input=json.dumps(states),
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    used = [(devices, values) for devices, values, _, _ in told]
    assert used == [(["vgpu:0", "vgpu:1"], [3.0, 3.0])] * len(states)
    assert not {"gloo", "JupyterLab"} & {
        name for *_, lacking in told for name in lacking
    }
    return [costs for _, _, costs, _ in told]


needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="needs no GPU")


@needs_no_gpu
def test_the_course_goes_on_beside_gpus_of_no_use(smi, tmp_path):
    states = {
        "No devices were found": ("No devices were found\n", "0"),
        "CUDA_VISIBLE_DEVICES is empty, which hides all 2": (TWO, ""),
        "names 9, which is not here: a process sees 1 of 2": (TWO, "0,9,1"),
        "MIG slices: 3g.20gb, 1g.5gb": (MIG, "0"),
        "GPU 0 is full": (state("40536, 99, Exclusive_Process"), "0"),
    }
    smi("", MIG_LIST)
    costs = go_on(tmp_path, *states.values())
    assert all(words in cost["GPUs"] for words, cost in zip(states, costs))


# these two are not recorded: so a torch for CUDA is on a machine without a driver
needs_cuda_build = pytest.mark.skipif(
    not torch.version.cuda or torch.cuda.is_available(),
    reason="needs a torch built for CUDA, and no GPU",
)


@needs_cuda_build
def test_a_torch_built_for_cuda_goes_on_without_a_driver(tmp_path):
    (costs,) = go_on(tmp_path, (None, "0"))
    assert costs["GPUs"] == NONE
    assert cuda_rows._ask().trouble.startswith("Found no NVIDIA driver")


@needs_cuda_build
def test_a_torch_built_for_cuda_goes_on_where_the_driver_does_not_run(smi, tmp_path):
    smi(NO_DRIVER, code=9)
    (costs,) = go_on(tmp_path, (None, "0"))
    assert "couldn't communicate with the NVIDIA driver" in costs["GPUs"]
    survey, cuda = cuda_rows.survey_gpus()
    assert torch_row(survey=survey, trouble=cuda.trouble).cost == (
        "its CUDA 13.0 finds no running NVIDIA driver: the GPUs are not used"
    )


NVML = """
int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 11080; return 0; }
int nvmlDeviceGetCount_v2(int *count) { *count = 2; return 0; }
"""


@needs_cuda_build
@pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")
def test_gpus_that_torch_counts_by_an_old_driver_are_not_used(tmp_path, monkeypatch):
    (tmp_path / "nvml.c").write_text(NVML)
    library = f"{tmp_path}/libnvidia-ml.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, f"{tmp_path}/nvml.c"], check=True
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    count = "import torch; print(torch.cuda.device_count())"
    environ = {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", count],
        env=os.environ | environ,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "2\n"
    (costs,) = go_on(tmp_path, (None, None), **environ)
    assert "the GPUs are not used" in costs["torch"]
