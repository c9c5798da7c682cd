"""The sandbox around a kernel: namespaces that bubblewrap makes, joined by a fork.

`bwrap` makes a read-only view of the system with empty folders for temporary files and
without a network, and holds it open. A process that was forked from a warm template
joins it (setns(2)), which starting a program in it could not: torch would be imported
again. When its first process ends, so do all others, however they hid.
"""

import ctypes
import functools
import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

from course_lib import proc
from course_lib.grading.limits import Limits

# from <sched.h>: new namespaces for users, mounts, processes, IPC, network, host name
_USER, _PROCESSES = 0x10000000, 0x20000000
_OTHERS = 0x00020000 | 0x08000000 | 0x40000000 | 0x04000000
_NO_NEW_PRIVILEGES, _DROP_FROM_BOUND = 38, 24  # of prctl(2)
_CAPABILITIES = 64
_VERSION = 0x20080522  # of capset(2)
_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # empty and writable inside
_HOLD = "echo; exec cat"  # says that all is set up, ends with its input


@functools.cache
def missing() -> str:
    """Why there is no sandbox on this machine; nothing if there is one."""
    if not shutil.which("bwrap"):
        return (
            "bwrap is not installed (Debian, Ubuntu: sudo apt-get install bubblewrap)"
        )
    try:
        with Jail(None, Limits()):
            return ""
    except JailError as error:
        return str(error)


class JailError(Exception):
    """The sandbox could not be made."""


class Jail:
    """One sandbox. In it only `room` is there of the temporary folders.

    `room/sockets` is shared with the world outside; the rest of `room` is empty, and
    gone when the sandbox is closed. Of the folders `hidden` nothing is seen inside,
    unless the course or Python is in them.
    """

    def __init__(self, room: Path | None, limits: Limits, *, hidden=()):
        self._holder = subprocess.Popen(
            ["bwrap", *_options(room, limits, hidden), "sh", "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if self._holder.stdout.read(1) != b"\n":
            said = self._holder.stderr.read().decode(errors="replace").strip()
            self._holder.kill()
            self.close()
            raise JailError(f"bwrap cannot make a sandbox here: {said}")
        [self.first] = proc.children(of=self._holder.pid)  # number 1 inside

    @property
    def processes(self) -> set[int]:
        """The processes that hold the sandbox open."""
        return {self._holder.pid, self.first}

    def close(self) -> None:
        """Kill every process in it."""
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            stream.close()
        self._holder.kill()
        self._holder.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def enter(first: int) -> None:
    """Let the processes that this one forks from now on be in the sandbox of `first`.

    This process itself sees the files of the sandbox, but not its processes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    spaces = _USER | _PROCESSES | _OTHERS
    if libc.setns(os.pidfd_open(first), spaces) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot join the sandbox: {os.strerror(code)}")


def give_up_privileges() -> None:
    """Keep nothing of what who made the sandbox may do in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for capability in range(_CAPABILITIES):  # those above the last are refused
        libc.prctl(_DROP_FROM_BOUND, capability, 0, 0, 0)
    head, none = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(head, none) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up privileges")


def _options(room, limits, hidden):
    size = ["--size", str(limits.file)]
    options = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for device in glob.glob("/dev/nvidia*"):
        options += ["--dev-bind-try", device, device]
    home = os.path.expanduser("~")
    for folder in (*_FOLDERS, home, *hidden):
        if os.path.isdir(folder) and folder != "/":
            options += [*size, "--tmpfs", folder]
    for folder in _needed():
        options += ["--ro-bind", folder, folder]
    if room:
        sockets = str(room / "sockets")
        options += [*size, "--tmpfs", str(room), "--bind", sockets, sockets]
    return options


def _needed():
    """The folders that Python and the course are read from, outermost first."""
    places = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), *sys.path}
    return sorted(place for place in places if os.path.isdir(place) and place != "/")
