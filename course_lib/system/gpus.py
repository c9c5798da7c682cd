"""NVIDIA GPUs as nvidia-smi, the driver and the system list them, without CUDA.

Nothing here starts CUDA, so the notebook's process stays fit to be asked by anyone.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import shutil
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from course_lib.system import host

_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "compute_mode",
    "mig.mode.current",
)
_MIG = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+?)\)", re.M)
_OWNER = re.compile(r"^GPU (\d+): ", re.M)
_NVIDIA = "0x10de"  # of PCI; classes 0x03… are displays and accelerators for 3D


@dataclass(frozen=True)
class Slice:
    """A part of a GPU, a MIG device: its UUID and its size, as `1g.10gb`."""

    uuid: str
    size: str


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it; memory in MiB, 0 where it does not say.

    `busy` is the share of time in percent, None where it does not say; `mode` who may
    compute: "Default", "Exclusive_Process", "Prohibited".
    """

    index: str
    uuid: str
    name: str
    memory: int
    used: int = 0
    busy: int | None = None
    mode: str = ""
    is_sliced: bool = False
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True)
class Survey:
    """All GPUs of a machine, hidden ones too, and what is odd about the way to them.

    `complaint` is what nvidia-smi said in place of a list; `has_smi` is False where
    there is no nvidia-smi; `devices` counts the files of GPUs that a driver has made;
    `has_nvml` is True where its library answers; `has_card` where an NVIDIA GPU is on
    the bus, with a driver or without.
    """

    gpus: list[Gpu] = field(default_factory=list)
    complaint: str = ""
    has_smi: bool = True
    devices: int = 0
    has_nvml: bool = False
    has_card: bool = False

    @property
    def has_driver(self) -> bool:
        """True if CUDA may find GPUs here, so that it is worth to ask it."""
        return bool(self.has_smi or self.devices or self.has_nvml)


def survey(root: Path = host.ROOT) -> Survey:
    """Look for GPUs by nvidia-smi, by the files of a driver and on the bus."""
    told = _query(_FIELDS)
    if not told.good and "not a valid field" in told.text:
        told = _query(_FIELDS[:-1])  # a driver that knows of no MIG
    gpus = parse_gpus(told.text) if told.good else []
    if any(gpu.is_sliced for gpu in gpus):
        slices = parse_slices(host.answer("nvidia-smi", "-L"))
        gpus = [replace(g, slices=tuple(slices.get(g.index, ()))) for g in gpus]
    has_smi = shutil.which("nvidia-smi") is not None
    return Survey(
        gpus,
        _complaint(told.text) if has_smi and not gpus else "",
        has_smi=has_smi,
        devices=len([*(root / "dev").glob("nvidia[0-9]*")]),
        has_nvml=driver_cuda() is not None,
        has_card=any(map(_is_gpu, (root / "sys/bus/pci/devices").glob("*"))),
    )


def _query(fields):
    query = f"--query-gpu={','.join(fields)}"
    return host.reply("nvidia-smi", query, "--format=csv,noheader,nounits")


def _complaint(text):
    """Return the first sentence of what nvidia-smi printed."""
    line = next(filter(None, map(str.strip, text.splitlines())), "it does not answer")
    return line.partition(". ")[0].rstrip(".")


def _is_gpu(folder):
    try:
        vendor, kind = ((folder / name).read_text() for name in ("vendor", "class"))
    except OSError:
        return False
    return vendor.strip() == _NVIDIA and kind.startswith("0x03")


def parse_gpus(text: str) -> list[Gpu]:
    """Return the GPUs in the answer to nvidia-smi's query; [] if it lists none."""
    rows = (line.strip().split(", ") for line in text.splitlines())
    return [_gpu(row) for row in rows if len(row) >= 4 and row[0].isdecimal()]


def _gpu(row):
    padded = [*row, "", "", "", ""][: len(_FIELDS)]
    index, uuid, name, memory, used, busy, mode, mig = padded
    busy = int(busy) if busy.isdecimal() else None
    memory, used = (int(n) if n.isdecimal() else 0 for n in (memory, used))
    return Gpu(index, uuid, name, memory, used, busy, mode, is_sliced=mig == "Enabled")


def parse_slices(text: str) -> dict[str, list[Slice]]:
    """Return the MIG devices of each GPU, by index, as `nvidia-smi -L` has them."""
    _, *parts = _OWNER.split(text)
    return {
        index: [Slice(uuid, size) for size, _, uuid in _MIG.findall(lines)]
        for index, lines in zip(parts[::2], parts[1::2])
    }


@dataclass(frozen=True)
class View:
    """What CUDA_VISIBLE_DEVICES leaves of the GPUs, in its order.

    `unknown` is the first name that is not there, after which CUDA reads no further;
    `double` one that is there twice, so that CUDA sees nothing.
    """

    gpus: list[Gpu]
    unknown: str = ""
    double: str = ""


def view(all_gpus: list[Gpu], variable: str | None) -> View:
    """Return what a process sees by CUDA_VISIBLE_DEVICES; None hides nothing.

    Of GPUs in MIG mode a process sees one slice, and then no GPU beside it:
    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html
    """
    if variable is None:
        return View(_by_cuda(all_gpus))
    names = [name.strip() for name in variable.split(",")] if variable.strip() else []
    found = [_named(name, all_gpus) for name in names]
    known = [*itertools.takewhile(bool, found)]
    unknown = next((name for name, gpu in zip(names, found) if not gpu), "")
    counts = Counter(gpu.uuid for gpu in known)
    double = next((n for n, gpu in zip(names, known) if counts[gpu.uuid] > 1), "")
    return View([] if double else _by_cuda(known), unknown, double)


def _named(name, all_gpus):
    """Return the GPU, or the slice of one, that a name stands for, or None."""
    if name.startswith("MIG-"):
        parts = (part for gpu in all_gpus for part in _parts(gpu))
        return next((part for part in parts if part.uuid.startswith(name)), None)
    if name.startswith("GPU-"):
        return next((gpu for gpu in all_gpus if gpu.uuid.startswith(name)), None)
    return next((gpu for gpu in all_gpus if gpu.index == name), None)


def _parts(gpu):
    """Each slice of a GPU as CUDA shows it: as a GPU."""
    name = f"MIG {{}} of {gpu.name}"
    return [
        replace(gpu, uuid=one.uuid, name=name.format(one.size), memory=0, slices=())
        for one in gpu.slices
    ]


def _by_cuda(gpus):
    """Those that CUDA lists of these: one slice, if one of them is a slice or has any.

    A GPU in MIG mode without slices is not listed.
    """
    own = [gpu for gpu in gpus if gpu.uuid.startswith("MIG-")]
    slices = own + [part for gpu in gpus for part in _parts(gpu)]
    return slices[:1] or [gpu for gpu in gpus if not gpu.is_sliced]


@functools.cache
def driver_cuda() -> tuple[int, int] | None:
    """Return the newest CUDA that the driver runs, as (12, 2); None without a driver.

    NVML tells it, which does not start CUDA:
    https://docs.nvidia.com/deploy/nvml-api/group__nvmlSystemQueries.html
    """
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        number = ctypes.c_int()
        if library.nvmlInit_v2():
            return None
        failed = library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number))
        library.nvmlShutdown()
    except (OSError, AttributeError):
        return None
    return None if failed else cuda_version(number.value)


def cuda_version(number: int) -> tuple[int, int]:
    """Return the version that NVIDIA writes as one number: 12020 is (12, 2)."""
    return number // 1000, number % 1000 // 10


_VARIABLE = "CUDA_VISIBLE_DEVICES"
_given: list[str | None] = []  # what the variable was before it was set here


def variable() -> str | None:
    """Return CUDA_VISIBLE_DEVICES as this process was given it; None if it was not."""
    return _given[0] if _given else os.environ.get(_VARIABLE)


def is_outdated(build: str | None) -> bool:
    """Return True if the driver is too old for a torch built for a CUDA, as "13.0".

    A driver runs what was built for its own major version:
    https://docs.nvidia.com/deploy/cuda-compatibility/
    """
    if not build:
        return False
    driver = driver_cuda()
    return driver is not None and driver[0] < int(build.partition(".")[0])


def hide_if_outdated(build: str | None) -> None:
    """Let this process and its ranks see no GPUs whose driver is too old for torch.

    Else torch counts them, by NVML, and each first use of one fails.
    """
    if _given or not is_outdated(build):
        return
    _given.append(os.environ.get(_VARIABLE))
    os.environ[_VARIABLE] = ""
    warnings.warn(
        f"the NVIDIA driver is too old for this torch, which needs CUDA {build}: ranks"
        " run on CPUs, and devices are virtual GPUs. cl.doctor() says more.",
        stacklevel=4,
    )
