"""The sandbox around a kernel: namespaces that bubblewrap makes, joined by a fork.

`bwrap` makes a read-only view of the system with empty folders for temporary files and
without a network, and holds it open. A process that was forked from a warm template
joins it (setns(2)), which starting a program in it could not: torch would be imported
again. When its first process ends, so do all others, however they hid.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import glob
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from course_lib.grading.run.limits import Limits
from course_lib.system import linux
from course_lib.system import processes as proc

# from <sched.h>: new namespaces for users, mounts, processes, IPC, network, host name
_USER, _PROCESSES = 0x10000000, 0x20000000
_OTHERS = 0x00020000 | 0x08000000 | 0x40000000 | 0x04000000
_NO_NEW_PRIVILEGES, _DROP_FROM_BOUND, _DUMPABLE = 38, 24, 4  # of prctl(2)
_CAPABILITIES = 64
_OWNER = 0xB701  # NS_GET_USERNS of ioctl_ns(2): which namespace of users owns another
_READ_ONLY, _REMOUNT, _BIND = 1, 32, 4096  # of mount(2)
_VERSION = 0x20080522  # of capset(2)
_WRITABLE, _EMPTY = ("/tmp", "/dev/shm"), ("/var/tmp", "/run")
_SPACES = ("pid", "ipc", "net", "uts")
_STRANGERS = 1_000_000_000  # from here on users that no machine has
_HOLD = "echo; exec cat"  # says that all is set up, ends with its input


@functools.cache
def missing() -> str:
    """Return why there is no sandbox on this machine, or nothing."""
    if not shutil.which("bwrap"):
        return (
            "bwrap is not installed (Debian, Ubuntu: sudo apt-get install bubblewrap)"
        )
    try:
        with Sandbox(None, Limits()):
            return ""
    except SandboxError as error:
        return str(error)


class SandboxError(Exception):
    """The sandbox could not be made."""


class Sandbox:
    """One sandbox. In it only `room` is there of the temporary folders.

    `room/sockets` is shared with the world outside; the rest of `room` is empty, and
    gone when the sandbox is closed. Of the folders `hidden` nothing is seen inside,
    unless the course or Python is in them.
    """

    def __init__(self, room: Path | None, limits: Limits, *, hidden=()):
        self.room = room
        self._holder = subprocess.Popen(
            ["bwrap", *_options(room, limits, hidden), "sh", "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout and self._holder.stderr
        if self._holder.stdout.read(1) != b"\n":
            reason = self._holder.stderr.read().decode(errors="replace").strip()
            self._holder.kill()
            self.close()
            raise SandboxError(f"bwrap cannot make a sandbox here: {reason}")
        [self.first] = proc.children(of=self._holder.pid)  # number 1 inside

    @property
    def processes(self) -> set[int]:
        """The processes that hold the sandbox open."""
        return {self._holder.pid, self.first}

    def close(self) -> None:
        """Kill every process in it."""
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            if stream is not None:
                stream.close()
        self._holder.kill()
        self._holder.wait()

    def ended(self) -> bool:
        """Return True if something outside has ended it: nothing inside can."""
        return self._holder.poll() is not None

    def used(self) -> int:
        """Return the bytes of memory that its files take, some 1 kB for each name."""
        size = 0
        for folder in (*_WRITABLE, str(self.room)):
            with contextlib.suppress(OSError):
                disk = os.statvfs(f"/proc/{self.first}/root{folder}")
                size += (disk.f_blocks - disk.f_bfree) * disk.f_frsize
                size += (disk.f_files - disk.f_ffree) * 1000
        return size

    def enter(self) -> int:
        """Let the processes that this one forks from now on be in the sandbox.

        This process itself sees the files of the sandbox, but not its processes, and
        may do there what who made it may. The file of the users' namespace for those
        that may not comes back.
        """
        first = os.pidfd_open(self.first)
        folder = f"/proc/{self.first}/ns"
        users = os.open(f"{folder}/user", os.O_RDONLY)
        is_root = os.geteuid() == 0
        if not is_root:
            # bwrap makes all with one namespace of users, then another one within it
            mounts = os.open(f"{folder}/mnt", os.O_RDONLY)
            _join(fcntl.ioctl(mounts, _OWNER), _USER)
            os.close(mounts)
        _join(first, _PROCESSES | _OTHERS)
        if not is_root:
            # in a namespace of its own a notebook could mount more memory
            Path("/proc/sys/user/max_user_namespaces").write_text("0")
        return users

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def stranger() -> int | None:
    """Return a user of this run's own for the sandbox, if this process is root.

    Root without privileges could still write to what belongs to root, as /proc/sys.
    """
    return _STRANGERS + os.getpid() if os.geteuid() == 0 else None


def _join(namespace, kinds):
    """Join namespaces and close their file; joining one's own changes nothing."""
    if linux.libc().setns(namespace, kinds) != 0 and ctypes.get_errno() != errno.EINVAL:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot join the sandbox: {os.strerror(code)}")
    os.close(namespace)


def seal(folder: Path) -> None:
    """Let nobody in the sandbox, which this process has joined, write to a folder."""
    # who is not root must keep what the mount forbids already
    given = os.statvfs(folder).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
    flags = ctypes.c_ulong(_REMOUNT | _BIND | _READ_ONLY | given)  # the same numbers
    if linux.libc().mount(None, os.fsencode(folder), None, flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"cannot make {folder} read-only")


def give_up_privileges(user: int | None, users: int) -> None:
    """Be this user if one is given, and keep no privilege in the sandbox.

    `users` is the namespace that `Sandbox.enter` gave.
    """
    libc = linux.libc()
    if user is None:
        _join(users, _USER)
    else:
        os.close(users)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for capability in range(_CAPABILITIES):  # those above the last are refused
        libc.prctl(_DROP_FROM_BOUND, capability, 0, 0, 0)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        libc.prctl(_DUMPABLE, 1, 0, 0, 0)  # its /proc/self is its own again
    head, none = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(head, none) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up privileges")


def _options(room, limits, hidden):
    """What bwrap is told: first what is there, then folder by folder what is not."""
    options = [f"--unshare-{space}" for space in _SPACES]
    if os.geteuid() != 0:
        options += ["--unshare-user"]
    options += ["--die-with-parent", "--cap-drop", "ALL"]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for device in glob.glob("/dev/nvidia*"):
        options += ["--dev-bind-try", device, device]
    empty = ["--size", str(limits.file), "--perms", "1777", "--tmpfs"]
    shut = {*_EMPTY, os.path.expanduser("~"), *hidden} - {"/"}
    places = {place: _shut(place, empty) for place in shut if os.path.exists(place)}
    places |= {place: [*empty, place] for place in _WRITABLE}
    places |= {place: _shown(place) for place in _needed()}
    if room:
        sockets = str(room / "sockets")
        places[str(room)] = [*empty, str(room), "--bind", sockets, sockets]
    # outermost first, so that a folder inside another one is as it was asked for
    for place in sorted(places, key=lambda place: (place.count("/"), place)):
        options += places[place]
    closed = [place for place in shut if os.path.isdir(place)]
    for place in ["/dev", *sorted(set(closed) - {*_needed(), *_WRITABLE})]:
        options += ["--remount-ro", place]
    return options


def _shut(place, empty):
    """A folder without what is in it; of a file its name alone."""
    if os.path.isdir(place):
        return [*empty, place]
    return ["--ro-bind", os.devnull, place]


def _shown(place):
    """A folder as it is, also where those above it are empty now."""
    above = [str(folder) for folder in reversed(Path(place).parents)][1:]
    folders = [["--perms", "0755", "--dir", folder] for folder in above]
    return [*itertools.chain(*folders), "--ro-bind", place, place]


@functools.cache
def _needed():
    """The folders that Python and the course are read from, none to be written in."""
    places = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[3]), *sys.path}
    places -= {"/", *_WRITABLE}
    return sorted(place for place in places if os.path.isdir(place))
