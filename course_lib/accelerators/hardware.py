"""Data sheets of GPUs and links, and the two formulas that turn them into seconds."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from numbers import Real

from course_lib.errors import UsageError


@dataclass(frozen=True)
class DataSheet:
    """One GPU by its data sheet: bytes, bytes/s, and dense FLOP/s per dtype name."""

    name: str
    memory: int
    bandwidth: float
    flops: Mapping[str, float] = field(hash=False)  # a dict, since it is pickled
    source: str

    def __repr__(self) -> str:
        shown = [dtype for dtype in ("float32", "float16") if dtype in self.flops]
        peaks = ", ".join(f"{dtype} {self.flops[dtype] / 1e12:g}" for dtype in shown)
        size, speed = self.memory / 1e9, self.bandwidth / 1e9
        return f"<Gpu {self.name}: {size:g} GB, {speed:g} GB/s, {peaks} TFLOP/s>"


@dataclass(frozen=True)
class Link:
    """One way between two devices: bytes/s in one direction, seconds per message."""

    name: str
    bandwidth: float
    latency: float
    source: str

    def __repr__(self) -> str:
        speed, delay = self.bandwidth / 1e9, self.latency * 1e6
        return f"<Link {self.name}: {speed:g} GB/s, {delay:g} µs>"


# a matrix multiplication of PyTorch may reach these peaks with nothing switched on:
# float32 without TF32 (cuDNN's convolutions may use it: not counted), float64 on tensor
# cores where there are any (cuBLAS documentation, Tensor Core Usage); never with 2:4
# sparsity, so where a sheet states float16 "with sparsity" alone, half of it is here
_DTYPES = ("float64", "float32", "float16", "bfloat16")
# GB, GB/s, then TFLOP/s in the order of _DTYPES
_GPUS = {
    # the T4's sheet has no float64: Turing has a 32nd of float32. no bfloat16 in the
    # tensor cores of T4 and V100: float32 does it, at best as fast. the T4's memory is
    # also given as 320 GB/s. the V100 is the SXM2 board; 16 GB differ in nothing else
    "T4": (16, 300, 8.1 / 32, 8.1, 65, 8.1),
    "V100": (32, 900, 7.8, 15.7, 125, 15.7),
    "A100": (40, 1555, 19.5, 19.5, 312, 312),
    "A100-80GB": (80, 2039, 19.5, 19.5, 312, 312),
    "H100": (80, 3350, 67, 67, 989.5, 989.5),
    "H200": (141, 4800, 67, 67, 989.5, 989.5),
    # an eighth of a DGX B200; the brief says "up to" 192 GB
    "B200": (180, 8000, 40, 80, 2250, 2250),
}
_SHEETS = {
    "T4": "NVIDIA T4 Tensor Core GPU, data sheet, 2019; float64: NVIDIA Turing GPU"
    " Architecture, 2018; bfloat16: assumed as float32",
    "V100": "NVIDIA V100 Tensor Core GPU, data sheet, 2020 (SXM2, 32 GB);"
    " bfloat16: assumed as float32",
    "A100": "NVIDIA A100 Tensor Core GPU, data sheet, 2020 (SXM, 40 GB)",
    "A100-80GB": "NVIDIA A100 Tensor Core GPU, data sheet, 2021 (SXM, 80 GB)",
    "H100": "NVIDIA H100 Tensor Core GPU, data sheet, 2023 (SXM)",
    "H200": "NVIDIA H200 Tensor Core GPU, data sheet, 2024 (SXM)",
    "B200": "NVIDIA DGX B200, data sheet, 2024; FLOP/s: NVIDIA Blackwell Architecture"
    " Technical Brief, 2024 (HGX B200)",
}


def _gpu(name):
    memory, bandwidth, *peaks = _GPUS[name]
    flops = {dtype: peak * 1e12 for dtype, peak in zip(_DTYPES, peaks)}
    return DataSheet(name, memory * 10**9, bandwidth * 1e9, flops, _SHEETS[name])


GPUS = {name: _gpu(name) for name in _GPUS}

# no data sheet states the latency of a message. NVIDIA's own library reckons with these
# for one step of a ring, whatever the generation of the link; one copy may be faster
# or slower, the order of magnitude holds
_NVLINK, _PCIE, _NETWORK = 3.4e-6, 5.7e-6, 14e-6
_NCCL = "latency: NVIDIA NCCL 2, src/graph/tuning.cc, 2025 (ring, protocol Simple)"
# an idle Linux alone takes 10 µs of it (Larsen, Sarangam, Huggahalli, Kulkarni, 2009,
# Architectural Breakdown of End-to-End Latency in a TCP/IP Network)
_TCP = 30e-6
_ASSUMED = "latency: assumed, the order of magnitude of TCP/IP"
_PCI = "PCI-SIG, PCI Express Base Specification"
# GB/s in one direction, latency, source of the bandwidth, source of the latency
_LINKS = {
    # 16 lanes of 8, 16 and 32 GT/s; 128 of 130 bits are data
    "PCIe3": (15.75, _PCIE, f"{_PCI} 3.0, 2010, x16", _NCCL),
    "PCIe4": (31.5, _PCIE, f"{_PCI} 4.0, 2017, x16", _NCCL),
    "PCIe5": (63, _PCIE, f"{_PCI} 5.0, 2019, x16", _NCCL),
    # all links of one GPU, half of what its sheet adds up over both directions. a pair
    # has them all through a switch only: two V100 in a DGX-1 share one or two of six
    "NVLink2": (150, _NVLINK, _SHEETS["V100"].partition(";")[0], _NCCL),
    "NVLink3": (300, _NVLINK, _SHEETS["A100"], _NCCL),
    "NVLink4": (450, _NVLINK, _SHEETS["H100"], _NCCL),
    "NVLink5": (900, _NVLINK, _SHEETS["B200"].partition(";")[0], _NCCL),
    # one port of 200 or 400 Gb/s per GPU
    "InfiniBand-HDR": (25, _NETWORK, "NVIDIA ConnectX-6, user manual, 2019", _NCCL),
    "InfiniBand-NDR": (50, _NETWORK, "NVIDIA ConnectX-7, user manual, 2022", _NCCL),
    "Ethernet-10G": (1.25, _TCP, "IEEE 802.3ae, 2002", _ASSUMED),
    "Ethernet-25G": (3.125, _TCP, "IEEE 802.3by, 2016", _ASSUMED),
    "Ethernet-100G": (12.5, _TCP, "IEEE 802.3ba, 2010", _ASSUMED),
    "ideal": (inf, 0.0, "assumed, a thought experiment", "latency: assumed"),
}
LINKS = {
    name: Link(name, speed * 1e9, latency, f"bandwidth: {source}; {delay}")
    for name, (speed, latency, source, delay) in _LINKS.items()
}

# other names, written as _plain writes them
_ALIASES = {
    "v10032gb": "V100",
    "a10040gb": "A100",
    "h10080gb": "H100",
    "infiniband": "InfiniBand-HDR",
    "ethernet": "Ethernet-25G",
}


def find_gpu(name: str | DataSheet) -> DataSheet:
    """The data sheet of a GPU by name, `"a100"` or `"NVIDIA A100 80GB"`."""
    return name if isinstance(name, DataSheet) else _find(name, GPUS, "gpu")


def find_link(name: str | Link) -> Link:
    """A link by name, `"nvlink 3.0"`, `"PCIe Gen4"` or `"InfiniBand"` (HDR)."""
    return name if isinstance(name, Link) else _find(name, LINKS, "link")


def _plain(name):
    return re.sub(r"nvidia|tesla|gen|\.0|[\s._-]", "", name.lower())


def _find(name, known, noun):
    names = {_plain(right): right for right in known}
    names |= {alias: right for alias, right in _ALIASES.items() if right in known}
    wanted = _plain(name) if isinstance(name, str) else None
    if wanted in names:
        return known[names[wanted]]
    near = difflib.get_close_matches(wanted or "", names, 1)
    hint = f" Did you mean {names[near[0]]!r}?" if near else ""
    raise UsageError(
        f"cannot look up the {noun} {name!r:.40}: known are {', '.join(known)}.{hint}"
    )


def compute_time(
    gpu: DataSheet, *, flops: float = 0, bytes: float = 0, dtype: str = "float32"
) -> float:
    """Seconds of one operator by the roofline: arithmetic or memory, the slower one.

    A dtype without a peak of its own, such as int64, counts as float32
    (Williams, Waterman, Patterson, 2009, Roofline: An Insightful Visual Performance
    Model for Multicore Architectures).
    """
    # called for every operator: two divisions and no call of max
    arithmetic = flops / (gpu.flops.get(dtype) or gpu.flops["float32"])
    memory = bytes / gpu.bandwidth
    return arithmetic if arithmetic > memory else memory


def transfer_time(link: Link, bytes: float) -> float:
    """Seconds of one copy: latency + bytes / bandwidth.

    The α–β model (Hockney, 1994, The Communication Challenge for MPP: Intel Paragon
    and Meiko CS-2).
    """
    return link.latency + bytes / link.bandwidth


_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_LIMIT = 1e15
_NUMBER = re.compile(r"\s*([-+]?(?:[\d._]+(?:e[-+]?\d+)?|nan|inf))\s*([a-z]*)\s*", re.I)


def parse_size(size: float | str) -> int:
    """Whole bytes from a number or from words: `24e6`, `"24 MB"`, `"2 MiB"`."""
    count = _count(size)
    if count != count:
        _refuse(size, "it is not a number")
    if count < 0:
        _refuse(size, "it is negative")
    if count < 1:
        _refuse(size, "it is less than one byte")
    if count > _LIMIT:
        _refuse(size, "it is more than 1 PB")
    return round(count)


def _count(size):
    if isinstance(size, bool):
        _refuse(size, "it is a truth value")
    if isinstance(size, Real):
        return size
    if not isinstance(size, str):
        _refuse(size, f"it is a {type(size).__name__}")
    match = _NUMBER.fullmatch(size)
    if not match:
        _refuse(size, "it does not read as a number and a unit")
    units = {unit.lower(): scale for unit, scale in _UNITS.items()}
    number, unit = match[1], match[2] or "B"
    if unit.lower() not in units:
        _refuse(size, f"the unit {unit!r} is none of {', '.join(_UNITS)}")
    try:
        return float(number) * units[unit.lower()]
    except ValueError:
        _refuse(size, f"{number!r} is not a number")


def _refuse(size, reason):
    raise UsageError(
        f"cannot use {size!r:.40} as a size in bytes: {reason}."
        ' Give a number of bytes, 24e6, or words, "24 MB", "1.5 GB", "2 MiB".'
    ) from None
