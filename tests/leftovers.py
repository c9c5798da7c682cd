"""What a launch may leave behind: processes, files, listening sockets."""

import contextlib
import glob
import os
import socket
import struct
import tempfile
import time

import psutil

from tests import forked, kernels

_SHARED = ("/dev/shm/torch_*", "/dev/shm/psm_*", "/dev/shm/*course_lib*")
# of netlink: a protocol, a question, how it is asked, the end of an answer, a state
_SOCK_DIAG, _BY_FAMILY, _DUMP, _DONE, _LISTEN = 4, 20, 0x301, 3, 10
_CACHE = "torchinductor_"  # PyTorch keeps what it compiled for the next program


def becomes(condition, seconds=120.0):
    """True as soon as `condition()` is; False if it is not within a generous time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def lives(process):
    """True for a process that runs; a zombie has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def below(pid=None):
    """Every living process below `pid` (this process)."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if lives(process)]


def descendants(pid=None):
    """Those below `pid`, a fork server left out while its notebook lives."""
    return [process for process in below(pid) if not _serves(process)]


def _serves(process):
    """True for a fork server, and for what forks kernels and servers for tests.

    An agent has the same command line, but the server as its parent.
    """
    try:
        # for a moment a process that has just been started has none
        becomes(lambda: process.cmdline() or not lives(process))
        command, parent = process.cmdline(), process.ppid()
        if forked.SERVER in " ".join(command):
            return str(parent) in command
        forks = forked.MARK in " ".join(command)
        return forks and (process.pid in forked.STANDING or parent in forked.KERNELS)
    except psutil.NoSuchProcess:
        return False


def shared_files():
    """Files of a launch: shared memory, what is in the temporary folders of kernels."""
    graders = f"{tempfile.gettempdir()}/grading-*"
    named = {path for pattern in (*_SHARED, graders) for path in glob.glob(pattern)}
    theirs = {str(path) for path in kernels.FOLDERS.glob("*/**/*")}
    return named | {path for path in theirs if _CACHE not in path}


def others():
    """Files that processes have in use which are not below this one.

    Shared memory is the machine's: tests that run beside this one have theirs there.
    """
    mine = {process.pid for process in below()} | {os.getpid()}
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {path for pid in pids if pid not in mine for path in _used(pid)}


def _used(pid):
    """The files in memory that a process maps or has open."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as maps:
        yield from (line.split()[5] for line in maps if "/dev/shm/" in line)
    yield from _open(pid)


def _open(pid):
    """What the open files of a process are."""
    for file in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(OSError):
            yield os.readlink(file)


def sockets():
    """(process, port) of every TCP socket on which something below this one listens.

    psutil would read, for each process, all connections that the machine had of late.
    """
    ports = dict(_listening())
    found = {(one.pid, _inode(path)) for one in below() for path in _open(one.pid)}
    return {(pid, ports[inode]) for pid, inode in found if inode in ports}


def _listening():
    """(inode, port) of each TCP socket of this machine that listens.

    The kernel is asked for these alone (man 7 sock_diag): /proc/net/tcp takes it a
    hundred times as long, since it walks through all that could be connected.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            asked = family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTEN
            kernel.send(
                struct.pack("=IHHII4BI48x", 72, _BY_FAMILY, _DUMP, 0, 0, *asked)
            )
            while answer := kernel.recv(1 << 16):
                kind = yield from _read(answer)
                if kind != _BY_FAMILY:
                    break


def _read(answer):
    """The sockets of one answer of the kernel; its last kind of message comes back."""
    while answer:
        length, kind = struct.unpack_from("=IH", answer)
        assert kind in (_BY_FAMILY, _DONE), "this kernel lists no sockets (sock_diag)"
        if kind == _BY_FAMILY:
            (port,) = struct.unpack_from(">H", answer, 20)
            (inode,) = struct.unpack_from("=I", answer, 84)
            yield str(inode), port
        answer = answer[length + 3 & ~3 :]
    return kind


def _inode(path):
    return path.removeprefix("socket:[").removesuffix("]")


class Leftovers:
    """What is there now that was not when this was made."""

    def __init__(self):
        self.known = {process.pid for process in below()}
        self.files, self.sockets = shared_files(), sockets()

    def found(self):
        """A line for each process, file and socket that is new."""
        new = [process for process in descendants() if process.pid not in self.known]
        files = shared_files() - self.files
        if any(path.startswith("/dev/shm/") for path in files):
            files -= others()
        return [
            *(f"process {process}" for process in new),
            *(f"file {path}" for path in sorted(files)),
            *(f"socket {place}" for place in sorted(sockets() - self.sockets)),
        ]
