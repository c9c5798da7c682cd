"""What this machine has, read without CUDA: GPUs, cores, memory, container limits."""

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_GPU_QUERY = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total",
    "--format=csv,noheader,nounits",
)


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it; memory in MiB, 0 where it does not say."""

    index: str
    uuid: str
    name: str
    memory: int


def answer(*command: str, seconds: float = 10) -> str:
    """What a command prints; "" if it is missing, fails or takes too long."""
    try:
        process = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout if process.returncode == 0 else ""


def gpus() -> list[Gpu]:
    """All NVIDIA GPUs of the machine, hidden ones too."""
    return parse_gpus(answer(*_GPU_QUERY))


def parse_gpus(text: str) -> list[Gpu]:
    """The GPUs in the answer to nvidia-smi's query; [] if it lists none."""
    fields = (line.split(", ") for line in text.splitlines())
    return [
        Gpu(index, uuid, name, int(memory) if memory.isdecimal() else 0)
        for index, uuid, name, memory in (row for row in fields if len(row) == 4)
    ]


def visible(all_gpus: list[Gpu], variable: str | None) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; None hides nothing."""
    if variable is None:
        return all_gpus
    names = filter(None, map(str.strip, variable.split(",")))
    matches = (
        [gpu for gpu in all_gpus if name == gpu.index or gpu.uuid.startswith(name)]
        for name in names
    )
    # CUDA ignores everything behind a name that it does not know
    return [first for first, *_ in itertools.takewhile(bool, matches)]


def usable_cores(root: Path = ROOT) -> int:
    """Cores this process may use: its affinity, cut by the quota of its container."""
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    quota = core_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def core_quota(root: Path = ROOT) -> float | None:
    """The smallest CPU quota of our control groups, in cores; None if there is none."""
    return min(filter(None, map(_quota, _groups("cpu", root))), default=None)


def _quota(group):
    text = _read(group / "cpu.max")
    if not text:
        text = " ".join(_read(group / f"cpu.cfs_{x}_us") for x in ("quota", "period"))
    share, _, period = text.partition(" ")
    # no limit reads "max" in version 2 and -1 in version 1
    return int(share) / int(period) if share.isdecimal() else None


def usable_memory(root: Path = ROOT) -> int:
    """Bytes this process may use: the machine's, cut by the limit of its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *map(int, filter(str.isdecimal, _memory_limits(root)))])


def _memory_limits(root):
    for group in _groups("memory", root):
        yield _read(group / "memory.max")
        yield _read(group / "memory.limit_in_bytes")


def rank_threads() -> int:
    """How many threads a rank computes with: one, as under torchrun, unless asked."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, int(asked)) if asked.isdecimal() else 1


def use_one_thread() -> None:
    """Let this process compute with one thread, as its ranks do, unless asked."""
    if "OMP_NUM_THREADS" in os.environ:
        return
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    else:
        os.environ["OMP_NUM_THREADS"] = "1"  # read when PyTorch is imported


def temporary_folder() -> str | None:
    """The folder for temporary files; None where none can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return None


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The control groups that hold this process, versions 1 and 2, innermost first."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / (controller if controllers else "")
        group = base / path.lstrip("/")
        # a container may see a path of its host: walk up to what exists here
        for folder in (group, *group.parents):
            yield folder
            if folder == base:
                break


def _read(file):
    try:
        return file.read_text().strip()
    except OSError:
        return ""
