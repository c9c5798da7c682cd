"""What this machine has: what its commands say, cores, memory, container limits."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")


@dataclass(frozen=True)
class Reply:
    """What a command prints, errors too, and whether it succeeded."""

    text: str = ""
    good: bool = False


def answer(*command: str, seconds: float = 10) -> str:
    """Return what a command prints; "" if it is missing, fails or takes too long."""
    told = reply(*command, seconds=seconds)
    return told.text if told.good else ""


def reply(*command: str, seconds: float = 10) -> Reply:
    """Return what a command prints, also where it fails; none if it takes too long."""
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
        return Reply()
    good = process.returncode == 0
    return Reply(process.stdout if good else process.stdout + process.stderr, good)


def usable_cores(root: Path = ROOT) -> int:
    """Return the cores this process may use: its affinity, cut by its container's."""
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    quota = core_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def core_quota(root: Path = ROOT) -> float | None:
    """Return the least CPU quota of our control groups, in cores; None without any."""
    return min(filter(None, map(_quota, _groups("cpu", root))), default=None)


def _quota(group):
    text = _read(group / "cpu.max")
    if not text:
        text = " ".join(_read(group / f"cpu.cfs_{x}_us") for x in ("quota", "period"))
    share, _, period = text.partition(" ")
    # no limit reads "max" in version 2 and -1 in version 1
    return int(share) / int(period) if share.isdecimal() else None


def usable_memory(root: Path = ROOT) -> int:
    """Return the bytes this process may use: the machine's, cut by a container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *map(int, filter(str.isdecimal, _memory_limits(root)))])


def _memory_limits(root):
    for group in _groups("memory", root):
        yield _read(group / "memory.max")
        yield _read(group / "memory.limit_in_bytes")


def rank_threads() -> int:
    """Return how many threads a rank computes with: one, as by torchrun, if unset."""
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
    """Return the folder for temporary files; None where none can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return None


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the control groups of this process, versions 1 and 2, innermost first."""
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
