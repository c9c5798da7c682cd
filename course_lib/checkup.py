"""Examine this machine: what the course can use, what a lack costs, how to mend it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections import Counter

from course_lib.findings import Row, Table
from course_lib.system import host

_GIB = 2**30
_REINSTALL = "rm -rf .venv && make setup"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def doctor() -> Table:
    """A table of what this machine offers; CUDA is not initialized."""
    return Table(checks())


def checks() -> list[Row]:
    """One row per thing the course can use; looks at the machine, changes nothing."""
    gpus = host.gpus()
    return [
        _python(),
        *_torch(gpus),
        _jupyterlab(),
        _gpus(gpus),
        _cores(host.usable_cores()),
        _memory(host.usable_memory()),
        _shared_memory(),
        _openmpi(host.answer("mpirun", "--version")),
        _bwrap(),
        _chromium(),
    ]


def _python():
    version = platform.python_version()
    if tuple(map(int, version.split(".")[:2])) >= (3, 10):
        return Row("Python", version)
    cost = f"{version} is too old, the course needs 3.10"
    return Row("Python", "", cost, "PYTHON=python3.12 make setup")


def _torch(gpus):
    """The rows of torch, gloo and nccl, which only torch can tell."""
    try:
        import torch
        import torch.distributed as dist
    except (ImportError, OSError) as error:
        return _without_torch(error)
    here = dist.is_available()
    return [
        _build(torch, gpus),
        _gloo(here and dist.is_gloo_available()),
        _nccl(here and dist.is_nccl_available(), gpus),
    ]


def _without_torch(error):
    return [
        Row("torch", "", f"no lesson runs: {error}", "make setup"),
        Row("gloo", "", "ranks on CPUs cannot talk", "make setup"),
        Row("nccl", "", "ranks on GPUs cannot talk", "make setup"),
    ]


def _build(torch, gpus):
    version = str(torch.__version__)
    if not gpus:
        return Row("torch", version)
    if not torch.version.cuda:
        cost = "built for CPUs: the GPUs are not used"
        return Row("torch", version, cost, _REINSTALL)
    # asked in another process, because the answer initializes CUDA
    code = "import torch; print(torch.cuda.is_available())"
    if host.answer(sys.executable, "-c", code, seconds=120).strip() == "True":
        return Row("torch", version)
    cost = f"its CUDA {torch.version.cuda} does not start: the GPUs are not used"
    return Row("torch", version, cost, "a newer NVIDIA driver: nvidia-smi names yours")


def _gloo(here):
    if here:
        return Row("gloo", "in torch")
    return Row("gloo", "", "ranks on CPUs cannot talk", _REINSTALL)


def _nccl(here, gpus):
    if here:
        return Row("nccl", "in torch")
    if gpus:
        return Row("nccl", "", "ranks on GPUs cannot talk", _REINSTALL)
    return Row(
        "nccl", "", "nothing here: it needs GPUs", "torch brings it, without CPU=1"
    )


def _jupyterlab():
    try:
        return Row("JupyterLab", importlib.metadata.version("jupyterlab"))
    except importlib.metadata.PackageNotFoundError:
        return Row("JupyterLab", "", "the notebooks do not open", "make setup")


def _gpus(gpus):
    seen = host.visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    kinds = Counter(map(_kind, seen)).items()
    found = "; ".join(f"{count} × {kind}" for kind, count in kinds)
    if len(seen) > 1:
        return Row("GPUs", found)
    if len(gpus) > 1:
        cost = f"CUDA_VISIBLE_DEVICES hides {len(gpus) - len(seen)} of {len(gpus)}"
        return Row("GPUs", found, cost, "unset CUDA_VISIBLE_DEVICES")
    cost = "lessons with several devices use virtual GPUs"
    if not seen:
        cost = f"ranks run on CPUs; {cost}"
    remedy = "two NVIDIA GPUs, also rented: see README.md"
    return Row("GPUs", found, cost, remedy)


def _kind(gpu):
    return f"{gpu.name}, {gpu.memory / 1024:.0f} GiB" if gpu.memory else gpu.name


def _cores(usable):
    total = os.cpu_count() or usable
    found = f"{usable} of {total}" if usable < total else f"{usable}"
    if usable >= 4:
        return Row("cores", found)
    cost = "more ranks than cores take turns: no speed-up to see"
    return Row("cores", found, cost, "a machine or container with 4")


def _memory(usable):
    found = f"{usable / _GIB:.1f} GiB"
    if usable >= 4 * _GIB:
        return Row("memory", found)
    return Row("memory", found, "launches of many ranks may be killed", "4 GiB or more")


def _shared_memory():
    try:
        disk = shutil.disk_usage("/dev/shm")
    except OSError:
        return Row("/dev/shm", "", "DataLoader workers are slower", "Linux, or WSL")
    found = f"{disk.free / _GIB:.2f} of {disk.total / _GIB:.2f} GiB free"
    if disk.free >= _GIB / 4:
        return Row("/dev/shm", found)
    cost = "DataLoader workers die of 'Bus error'"
    if disk.total < _GIB:
        return Row("/dev/shm", found, cost, "docker run --shm-size=2g ...")
    return Row("/dev/shm", found, cost, "ls -lt /dev/shm; delete leftovers")


def _openmpi(text):
    version = re.search(r"Open MPI\) (\S+)", text)
    if version:
        return Row("OpenMPI", version[1])
    return Row("OpenMPI", "", "cells with mpirun cannot run", _apt("openmpi-bin"))


def _bwrap():
    cost = "the grader runs answers without a sandbox"
    if not shutil.which("bwrap"):
        return Row("bwrap", "", cost, _apt("bubblewrap"))
    trial = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "echo", "works")
    if host.answer(*trial):
        return Row("bwrap", "works")
    remedy = "ask for user namespaces on this machine"
    return Row("bwrap", "may not start here", cost, remedy)


def _chromium():
    found = next(filter(None, map(shutil.which, _BROWSERS)), "")
    if found:
        return Row("Chromium", found)
    return Row("Chromium", "", "make test skips the browser tests", _apt("chromium"))


def _apt(package):
    if not shutil.which("apt-get"):
        return f"your package manager; Debian names it {package}"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {package}"
