"""Data sheets of GPUs and links, and the two formulas that turn them into seconds."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import NoReturn

from course_lib.errors import UsageError


@dataclass(frozen=True)
class DataSheet:
    """One GPU: bytes, bytes/s, and dense FLOP/s per dtype name.

    `rates` says whether these are a data sheet's peaks or what training reaches,
    `convolution` which share of the FLOP/s convolutions have.
    """

    name: str
    memory: int
    bandwidth: float
    flops: Mapping[str, float] = field(hash=False)  # a dict, since it is pickled
    source: str
    capability: tuple[int, ...] = ()  # of CUDA, major and minor
    rates: str = "peak rates"
    convolution: float = 1.0

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


_DTYPES = ("float64", "float32", "tfloat32", "float16", "bfloat16")


def read_table(path: Path) -> csv.DictReader:
    """Return the rows of a CSV file by the names in its first line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return csv.DictReader(line for line in lines if not line.startswith("#"))


def _rows(table):
    return read_table(Path(__file__).with_name(table))


def _gpu(row):
    flops = {dtype: float(row[dtype]) * 1e12 for dtype in _DTYPES if row[dtype]}
    memory, bandwidth = int(row["GB"]) * 10**9, float(row["GB/s"]) * 1e9
    capability = tuple(map(int, row["capability"].split(".")))
    return DataSheet(row["name"], memory, bandwidth, flops, row["source"], capability)


def _link(row):
    bandwidth, latency = float(row["GB/s"]) * 1e9, float(row["latency"])
    return Link(row["name"], bandwidth, latency, row["source"])


GPUS = {gpu.name: gpu for gpu in map(_gpu, _rows("gpus.csv"))}
LINKS = {link.name: link for link in map(_link, _rows("links.csv"))}

# other names, written as _plain writes them
_ALIASES = {
    "v10032gb": "V100",
    "a10040gb": "A100",
    "h10080gb": "H100",
    "infiniband": "InfiniBand-HDR",
    "ethernet": "Ethernet-25G",
}


def find_gpu(name: str | DataSheet) -> DataSheet:
    """Return the data sheet of a GPU by name, `"a100"` or `"NVIDIA A100 80GB"`."""
    return name if isinstance(name, DataSheet) else _find(name, GPUS, "gpu")


def find_link(name: str | Link) -> Link:
    """Return a link by name, `"nvlink 3.0"`, `"PCIe Gen4"` or `"InfiniBand"` (HDR)."""
    return name if isinstance(name, Link) else _find(name, LINKS, "link")


def achievable(gpu: str | DataSheet) -> DataSheet:
    """Return a GPU with the rates that training reaches.

    A data sheet states peaks; gpus.csv has the shares of them that steps of known
    networks reach on average, fitted to published and measured steps
    (benchmarks/published.md, benchmarks/gpu.md), and the error that is left. Errors:
    UsageError for a GPU without such shares.
    """
    sheet = find_gpu(gpu)
    known = {row["name"]: row for row in _rows("gpus.csv") if row["tensor share"]}
    if sheet.name not in known:
        raise UsageError(
            f"cannot say what the gpu {sheet.name!r:.40} achieves: shares are known for"
            f" {', '.join(known)}."
        )
    shares = known[sheet.name]
    plain, tensor = float(shares["plain share"]), float(shares["tensor share"])
    slow = sheet.flops["float32"]
    # what is not faster than float32 does not use tensor cores
    flops = {
        dtype: peak * (tensor if peak > slow else plain)
        for dtype, peak in sheet.flops.items()
    }
    bandwidth = sheet.bandwidth * float(shares["memory share"])
    source = f"{sheet.source}; shares of its rates: {shares['shares from']}"
    rates = f"reached rates, median error {100 * float(shares['error']):.0f} %"
    return replace(
        sheet,
        bandwidth=bandwidth,
        flops=flops,
        convolution=float(shares["convolution share"]),
        source=source,
        rates=rates,
    )


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
    """Return seconds of an operator by the roofline: arithmetic or memory.

    A dtype without a peak of its own, such as int64, counts as float32, and so does
    "tfloat32" (float32 on tensor cores) where a GPU has none. (Williams, Waterman,
    Patterson, 2009, Roofline: An Insightful Visual Performance Model for Multicore
    Architectures)
    """
    # called for every operator: two divisions and no call of max
    arithmetic = flops / (gpu.flops.get(dtype) or gpu.flops["float32"])
    memory = bytes / gpu.bandwidth
    return arithmetic if arithmetic > memory else memory


def transfer_time(link: Link, bytes: float) -> float:
    """Return seconds of one copy: latency + bytes / bandwidth.

    The α–β model (Hockney, 1994, The Communication Challenge for MPP: Intel Paragon
    and Meiko CS-2).
    """
    return link.latency + bytes / link.bandwidth


_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_LIMIT = 1e15
_NUMBER = re.compile(r"\s*(\d[\d_]*\.?\d*(?:e[-+]?\d+)?|\.\d+)\s*([a-z]*)\s*", re.I)


def parse_size(size: float | str) -> int:
    """Return whole bytes from a number or from words: `24e6`, `"24 MB"`, `"2 MiB"`."""
    count = _count(size)
    if not 1 <= count <= _LIMIT:  # as nan is, too
        _refuse(size, "it is not one byte to 1 PB")
    return round(count)


def _count(size):
    if isinstance(size, Real) and not isinstance(size, bool):
        return size
    match = _NUMBER.fullmatch(size) if isinstance(size, str) else None
    if not match:
        _refuse(size, "it does not read as a number and a unit")
    units = {unit.lower(): scale for unit, scale in _UNITS.items()}
    unit = match[2] or "B"
    if unit.lower() not in units:
        _refuse(size, f"the unit {unit!r} is none of {', '.join(_UNITS)}")
    return float(match[1]) * units[unit.lower()]


def _refuse(size, reason) -> NoReturn:
    raise UsageError(
        f"cannot use {size!r:.40} as a size in bytes: {reason}."
        ' Give a number of bytes, 24e6, or words, "24 MB", "1.5 GB", "2 MiB".'
    )
