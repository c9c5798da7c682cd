"""What the system tells of processes, in /proc, and what these leave (Linux only).

psutil was tried: it takes half as long again to list descendants, a tenth of a second
to import, and lacks the exit code of a zombie, threads' times in ns, signal handlers.
"""

import contextlib
import glob
import os
import shutil
from collections.abc import Container, Iterable
from typing import NamedTuple

from course_lib.system import host

_TIDY = ("torch_shm_manager", "multiprocessing.resource_tracker")
_SOCKETS = "torch-shm-dir-*/manager.sock"


def children(of: int | None = None) -> list[int]:
    """Return the process ids of the children of a process; of this one by default."""
    of = of or os.getpid()
    return [pid for pid, parent in _parents().items() if parent == of]


def _names(folder):
    try:
        return os.listdir(folder)
    except OSError:  # the process has ended, or this is not Linux
        return []


def state(pid: int) -> str | None:
    """Return a letter of proc(5): R runs, S sleeps, Z has ended; None if it is gone."""
    fields = _stat(pid)
    return fields[0] if fields else None


def exit_code(pid: int) -> int | None:
    """Return how a child ended that nobody has waited for: negative for a signal."""
    fields = _stat(pid)
    if not fields or fields[0] != "Z":
        return None
    # the last field is hidden from those who may not look into the process
    return os.waitstatus_to_exitcode(int(fields[-1]))


def descendants(of: int | None = None) -> set[int]:
    """Return the process ids of the children of a process (this one), and of theirs."""
    return families([of or os.getpid()])[0]


def families(pids: Iterable[int]) -> list[set[int]]:
    """Return for each process its children and theirs, by one look at all there are."""
    parents = _parents()
    return [_below(pid, parents) for pid in pids]


def _below(pid, parents):
    family, new = set(), {pid}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        family |= new
    return family


def _parents():
    pids = [int(name) for name in _names("/proc") if name.isdigit()]
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has, shared ones included."""
    pages = _read(f"/proc/{pid}/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def proportional(pid: int) -> int:
    """Return the bytes of memory of a process; those that several share are divided."""
    return size(f"/proc/{pid}/smaps_rollup", "Pss")


def held(pids: Iterable[int]) -> int:
    """Return the bytes of the nameless files that processes have open in memory."""
    sizes = {}
    for pid in pids:
        for number in _names(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{number}"
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(path).startswith("/memfd:"):
                    file = os.stat(path)
                    sizes[file.st_dev, file.st_ino] = file.st_blocks * 512
    return sum(sizes.values())


def catches(pid: int, number: int) -> bool:
    """Return True if a process has a handler for this signal, which could end it."""
    caught = _field(f"/proc/{pid}/status", "SigCgt") or "0"
    return bool(int(caught, 16) >> (number - 1) & 1)


def _stat(pid):
    """Return the fields of a process; None if it is gone."""
    try:
        return _fields(f"/proc/{pid}/stat")
    except OSError:
        return None


def _fields(path):
    """State, parent and the rest of a file `stat` of proc(5)."""
    # that of every process is read as a launch ends: half the time of `open`
    file = os.open(path, os.O_RDONLY)
    try:
        text = os.read(file, 4096)
    finally:
        os.close(file)
    # the name in parentheses may itself hold spaces and parentheses
    return text.rpartition(b")")[2].decode().split()


def runnable(pid: int) -> float:
    """Return the seconds that a process's main thread computed, or lacked a core."""
    computed, waited, _ = _read(f"/proc/{pid}/schedstat").split() or (0, 0, 0)
    return (int(computed) + int(waited)) / 1e9


def starved(pid: int) -> float:
    """Return the seconds that a process waited for a core."""
    stat = _read(f"/proc/{pid}/schedstat").split()
    return int(stat[1]) / 1e9 if stat else 0.0


class Activity(NamedTuple):
    """The state of a process's main thread, and how long all its threads computed.

    `groups` is how many threads of gloo look for messages.
    """

    state: str  # of proc(5): R runs, S sleeps, T is stopped; D if any waits for a disk
    seconds: float
    groups: int = 0


def works(activity: Activity | None) -> bool:
    """Return True for a process that has a core, waits for one, or for a disk."""
    return activity is not None and activity.state in ("R", "D")


def together(parent: Activity | None, family: Iterable[int]) -> Activity | None:
    """Return the activity of a process with its family's: busy if any of them is."""
    others = [other for other in map(activity, family) if other]
    if parent is None or not others:
        return parent
    seconds = parent.seconds + sum(other.seconds for other in others)
    busy = [other.state for other in others if works(other)]
    state = busy[0] if busy and parent.state == "S" else parent.state
    groups = parent.groups + sum(other.groups for other in others)
    return Activity(state, seconds, groups)


def activity(pid: int) -> Activity | None:
    """Return what a process does now; None if it has ended, or this is not Linux."""
    states, nanoseconds, groups = {}, 0, 0
    for thread in _names(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}"
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            states[int(thread)] = _fields(f"{folder}/stat")[0]
            with open(f"{folder}/schedstat") as file:
                nanoseconds += int(file.read().split()[0])
            with open(f"{folder}/comm") as file:
                groups += file.read() == "gloo_tcp_loop\n"
    state = "D" if "D" in states.values() else states.get(pid)
    return Activity(state, nanoseconds / 1e9, groups) if state else None


def tidies(pid: int) -> bool:
    """Return True for a process that removes what others shared, or just starts."""
    command = _read(f"/proc/{pid}/cmdline")
    return not command or any(name in command for name in _TIDY)


def remove_leftovers(
    family: set[int], since: float, forked: Container[int] = ()
) -> None:
    """Remove the shared tensors of a family, and folders of managers that are gone.

    Also those of processes that were `forked` and have ended. Only folders made after
    the time `since` count: they are of this launch.
    """
    for path in glob.glob("/dev/shm/torch_*_*"):
        name = path.split("_")[1]  # the number of the process that made it
        maker = int(name) if name.isdigit() else 0
        if maker in family or (maker in forked and state(maker) is None):
            with contextlib.suppress(OSError):
                os.unlink(path)
    in_use = _read("/proc/net/unix")
    folder = host.temporary_folder()
    for path in glob.glob(os.path.join(folder, _SOCKETS)) if folder else ():
        with contextlib.suppress(OSError):
            if path not in in_use and os.stat(path).st_mtime > since:
                shutil.rmtree(os.path.dirname(path))


def size(path: str, name: str) -> int:
    """Return the bytes that a file of proc(5) gives for `name` in kB, or 0."""
    return int(_field(path, name).removesuffix("kB") or 0) << 10


def _field(path, name):
    """Return what stands behind `name:` in a file; "" if the process has ended."""
    rows = (line.partition(":") for line in _read(path).splitlines())
    return next((value.strip() for key, _, value in rows if key == name), "")


def _read(path):
    """Return the text of a file; "" if the process has ended, or this is not Linux."""
    try:
        # the names of sockets and programs may be any bytes
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""
