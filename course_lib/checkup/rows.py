"""One row for each thing that the course can use."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import shutil
import sys

from course_lib.checkup import cuda_rows, gpu_row
from course_lib.checkup.table import Checkup, Finding
from course_lib.system import gpus, host

_GIB = 2**30
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# what Debian calls that which is no part of Python
_PACKAGES = {"Chromium": "chromium", "OpenMPI": "openmpi-bin", "MPICH": "mpich"}
_PACKAGES |= {"bwrap": "bubblewrap"}


def doctor() -> Checkup:
    """Return a table of what this machine offers; CUDA is not initialized."""
    return Checkup(checks())


def main(args: list[str]) -> int:
    """Print what this machine offers; 1 if something necessary is missing."""
    argparse.ArgumentParser("python -m course_lib doctor").parse_args(args)
    checkup = doctor()
    print(checkup.text(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return 1 if checkup.lacking else 0


def checks() -> list[Finding]:
    """Return a row per thing the course can use; change nothing."""
    survey, cuda = cuda_rows.survey_gpus()
    return [
        _python(),
        *cuda_rows.torch_rows(survey, cuda),
        _jupyterlab(),
        gpu_row.finding(survey, gpus.variable()),
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
        return Finding("Python", version)
    cost = f"{version} is too old, the course needs 3.10"
    return Finding("Python", "", cost, "PYTHON=python3.12 make setup")


def _jupyterlab():
    try:
        return Finding("JupyterLab", importlib.metadata.version("jupyterlab"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("JupyterLab", "", "the notebooks do not open", "make setup")


def _unless(good, finding):
    """Return the finding, of which cost and remedy go if it is good as it is."""
    return Finding(finding.name, finding.found) if good else finding


def _cores(usable):
    total = os.cpu_count() or usable
    count = f"{usable} of {total}" if usable < total else f"{usable}"
    cost = "more ranks than cores take turns: no speed-up to see"
    remedy = "a machine or container with 4"
    return _unless(usable >= 4, Finding("cores", count, cost, remedy))


def _memory(usable):
    size = f"{usable / _GIB:.1f} GiB"
    cost = "launches of many ranks may be killed"
    return _unless(usable >= 4 * _GIB, Finding("memory", size, cost, "4 GiB or more"))


def _shared_memory():
    try:
        disk = shutil.disk_usage("/dev/shm")
    except OSError:
        return Finding("/dev/shm", "", "DataLoader workers are slower", "Linux, or WSL")
    space = f"{disk.free / _GIB:.2f} of {disk.total / _GIB:.2f} GiB free"
    remedy = "ls -lt /dev/shm; delete leftovers"
    if disk.total < _GIB:
        remedy = "docker run --shm-size=2g ..."
    lack = Finding("/dev/shm", space, "DataLoader workers die of 'Bus error'", remedy)
    return _unless(disk.free >= _GIB / 4, lack)


def _openmpi(text):
    version = next(iter(re.findall(r"Open MPI\) (\S+)", text)), "")
    remedy = install_command("OpenMPI")
    lack = Finding("OpenMPI", version, "cells with mpirun cannot run", remedy)
    return _unless(version, lack)


def _bwrap():
    cost = "the grader runs answers without a sandbox"
    if not shutil.which("bwrap"):
        return Finding("bwrap", "", cost, install_command("bwrap"))
    trial = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "echo", "works")
    if host.answer(*trial):
        return Finding("bwrap", "works")
    remedy = "ask for user namespaces on this machine"
    return Finding("bwrap", "may not start here", cost, remedy)


def _chromium():
    path = next(filter(None, map(shutil.which, _BROWSERS)), "")
    cost = "make test skips the browser tests"
    return _unless(path, Finding("Chromium", path, cost, install_command("Chromium")))


def install_command(name: str) -> str:
    """Return the command that installs a program which is no part of Python."""
    package = _PACKAGES.get(name, name)
    if not shutil.which("apt-get"):
        return f"your package manager; Debian names it {package}"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {package}"
