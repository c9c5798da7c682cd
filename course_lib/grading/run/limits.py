"""What one notebook may use, and what its processes use at this moment."""

import os
import resource
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.system import processes as proc

_MB = 10**6
_THREADS = 20  # for each process that is allowed; torch and gloo start some


@dataclass(frozen=True)
class Limits:
    """Limits for one notebook: seconds, bytes, numbers of processes."""

    cell: float = 60.0  # seconds for a cell that has no limit of its own
    total: float = 900.0  # seconds for one run of a notebook
    memory: int = 4000 * _MB  # of all its processes together
    processes: int = 100
    output: int = 2 * _MB  # kept of what one cell shows
    file: int = 500 * _MB  # the largest file, in the sandbox of each writable folder


def excess(pids: set[int], limits: Limits, *, files: int = 0, reader: int = 0) -> str:
    """Return the limit that these processes exceed, to end a sentence, or nothing.

    `files` are the bytes of files that are in memory and have names. What the process
    `reader` was sent by the others counts as theirs.
    """
    if len(pids) > limits.processes:
        return f"{len(pids)} processes, {limits.processes} are allowed"
    files += proc.held(pids)
    pids = pids | {reader}
    # pages shared after a fork count in each process, so that this is an upper bound
    if files + sum(map(proc.resident, pids)) <= limits.memory:
        return ""
    used = files + sum(map(proc.proportional, pids))
    if used <= limits.memory:
        return ""
    return f"{used / 1e9:.1f} GB of memory, {limits.memory / 1e9:g} GB are allowed"


def kill(pids: Iterable[int]) -> None:
    """Stop them all first, so that none can start another; then kill them."""
    pids = list(pids)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def confine(limits: Limits, *, alone: bool) -> None:
    """Limit files and memory dumps of this process, and if it is `alone` its threads.

    Processes are counted by user: where others have the same one they would count too.
    """
    most = {resource.RLIMIT_FSIZE: limits.file, resource.RLIMIT_CORE: 0}
    if alone:  # a last barrier, since a look every now and then may come too late
        most[resource.RLIMIT_NPROC] = _THREADS * limits.processes
    for kind, wanted in most.items():
        _, hard = resource.getrlimit(kind)
        least = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (least, least))
