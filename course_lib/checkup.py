"""Examine this machine: what the course can use, what a lack costs, how to mend it."""

from __future__ import annotations

import argparse
import html
import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections import Counter
from dataclasses import dataclass

from course_lib.display import Html, html_table, text_table
from course_lib.system import host

_GIB = 2**30
_REINSTALL = "rm -rf .venv && make setup"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# grey lines and inherited ink suit JupyterLab's light and dark theme
_CELL = (
    "text-align:left;vertical-align:top;padding:4px 16px 4px 0;background:none;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.4);white-space:normal"
)
# what Debian calls that which is no part of Python
_PACKAGES = {"Chromium": "chromium", "OpenMPI": "openmpi-bin", "MPICH": "mpich"}
_PACKAGES |= {"bwrap": "bubblewrap"}
NECESSARY = ("Python", "torch", "gloo", "JupyterLab")
_HEADS = ("", "found", "what it costs", "how to get it")
_WIDTHS = (10, 22, 30, 32)  # characters; with two blanks between columns: 100


@dataclass(frozen=True)
class Finding:
    """One thing: what was found ("" if nothing), what the lack costs, the way to it."""

    name: str
    found: str
    cost: str = ""
    remedy: str = ""


class Checkup:
    """What the doctor found: text in a terminal, a table in a notebook."""

    def __init__(self, findings):
        self.findings = list(findings)

    @property
    def lacking(self) -> list[str]:
        """The names of necessary things that are missing."""
        return [f.name for f in self.findings if f.name in NECESSARY and not f.found]

    def summary(self) -> str:
        """One sentence: can the course run here?"""
        if not self.lacking:
            return "Everything necessary is here."
        return f"Necessary and missing: {', '.join(self.lacking)}."

    def text(self, color: bool = False) -> str:
        """The table in at most 100 columns; the word "missing" is bold if `color`."""
        rows = [(f.name, f.found or "missing", f.cost, f.remedy) for f in self.findings]
        table = text_table(_HEADS, rows, _WIDTHS)
        if color:
            table = re.sub(r"(?m)^(\S+ +)missing\b", "\\1\x1b[1mmissing\x1b[0m", table)
        return f"{table}\n\n{self.summary()}"

    def __str__(self):
        return self.text()

    def __repr__(self):
        missing = sum(not finding.found for finding in self.findings)
        return f"Checkup of {len(self.findings)} things, {missing} missing"

    def _repr_html_(self):
        table = html_table(_HEADS, map(_cells, self.findings), style=_CELL)
        return f"<p><b>{html.escape(self.summary())}</b></p>{table}"


def _cells(finding):
    missing = "not here"
    if finding.name in NECESSARY:  # in vermilion of Okabe and Ito
        missing = Html('<b style="color:#d55e00">missing</b>')
    name = Html(f"<b>{html.escape(finding.name)}</b>")
    return name, finding.found or missing, finding.cost, finding.remedy


def doctor() -> Checkup:
    """A table of what this machine offers; CUDA is not initialized."""
    return Checkup(checks())


def main(args: list[str]) -> int:
    """Print what this machine offers; 1 if something necessary is missing."""
    argparse.ArgumentParser("python -m course_lib doctor").parse_args(args)
    checkup = doctor()
    print(checkup.text(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return 1 if checkup.lacking else 0


def checks() -> list[Finding]:
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
        return Finding("Python", version)
    cost = f"{version} is too old, the course needs 3.10"
    return Finding("Python", "", cost, "PYTHON=python3.12 make setup")


def _torch(gpus):
    """The rows of torch, gloo and nccl, which only torch can tell."""
    try:
        import torch
        import torch.distributed as dist
    except (ImportError, OSError) as error:
        return [
            Finding("torch", "", f"no lesson runs: {error}", "make setup"),
            Finding("gloo", "", "ranks on CPUs cannot talk", "make setup"),
            Finding("nccl", "", "ranks on GPUs cannot talk", "make setup"),
        ]
    here = dist.is_available()
    gloo = "in torch" if here and dist.is_gloo_available() else ""
    return [
        _build(torch, gpus),
        _unless(gloo, Finding("gloo", gloo, "ranks on CPUs cannot talk", _REINSTALL)),
        _nccl(here and dist.is_nccl_available(), gpus),
    ]


def _unless(good, finding):
    """The finding, of which cost and remedy go if it is good as it is."""
    return Finding(finding.name, finding.found) if good else finding


def _build(torch, gpus):
    version = str(torch.__version__)
    if gpus and not torch.version.cuda:
        cost = "built for CPUs: the GPUs are not used"
        return Finding("torch", version, cost, _REINSTALL)
    # asked in another process, because the answer initializes CUDA
    code = "import torch; print(torch.cuda.is_available())"
    if not gpus or "True" in host.answer(sys.executable, "-c", code, seconds=120):
        return Finding("torch", version)
    cost = f"its CUDA {torch.version.cuda} does not start: the GPUs are not used"
    remedy = "a newer NVIDIA driver: nvidia-smi names yours"
    return Finding("torch", version, cost, remedy)


def _nccl(here, gpus):
    cost, remedy = "nothing here: it needs GPUs", "torch brings it, without CPU=1"
    if gpus:
        cost, remedy = "ranks on GPUs cannot talk", _REINSTALL
    return Finding("nccl", "in torch") if here else Finding("nccl", "", cost, remedy)


def _jupyterlab():
    try:
        return Finding("JupyterLab", importlib.metadata.version("jupyterlab"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("JupyterLab", "", "the notebooks do not open", "make setup")


def _gpus(gpus):
    visible = host.visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    kinds = Counter(map(_kind, visible)).items()
    listing = "; ".join(f"{count} × {kind}" for kind, count in kinds)
    if len(visible) > 1:
        return Finding("GPUs", listing)
    if len(gpus) > 1:
        cost = f"CUDA_VISIBLE_DEVICES hides {len(gpus) - len(visible)} of {len(gpus)}"
        return Finding("GPUs", listing, cost, "unset CUDA_VISIBLE_DEVICES")
    cost = "lessons with several devices use virtual GPUs"
    if not visible:
        cost = f"ranks run on CPUs; {cost}"
    remedy = "two NVIDIA GPUs, also rented: see docs/setup.md"
    return Finding("GPUs", listing, cost, remedy)


def _kind(gpu):
    return f"{gpu.name}, {gpu.memory / 1024:.0f} GiB" if gpu.memory else gpu.name


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
    cost = "cells with mpirun cannot run"
    return _unless(version, Finding("OpenMPI", version, cost, install("OpenMPI")))


def _bwrap():
    cost = "the grader runs answers without a sandbox"
    if not shutil.which("bwrap"):
        return Finding("bwrap", "", cost, install("bwrap"))
    trial = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "echo", "works")
    if host.answer(*trial):
        return Finding("bwrap", "works")
    remedy = "ask for user namespaces on this machine"
    return Finding("bwrap", "may not start here", cost, remedy)


def _chromium():
    path = next(filter(None, map(shutil.which, _BROWSERS)), "")
    cost = "make test skips the browser tests"
    return _unless(path, Finding("Chromium", path, cost, install("Chromium")))


def install(name: str) -> str:
    """The command that installs a program which is no part of Python."""
    package = _PACKAGES.get(name, name)
    if not shutil.which("apt-get"):
        return f"your package manager; Debian names it {package}"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {package}"
