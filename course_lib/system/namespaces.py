"""Processes of this machine with host names of their own, by namespaces of Linux."""

import ctypes
import os
import socket

from course_lib.system import linux

# of sched.h: CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWUTS
_USER, _MOUNT, _HOST = 0x10000000, 0x00020000, 0x04000000
_KINDS = ("user", "uts", "mnt")  # the first one gives the right to enter the others
# of mount.h: MS_BIND, MS_REC | MS_PRIVATE, MNT_DETACH
_BIND, _PRIVATE, _DETACH = 0x1000, 0x44000, 2
_HOSTS, _SPARE = b"/etc/hosts", b"/tmp"


def become(host: str, addresses: dict[str, str]) -> None:
    """Call the host of this process `host`, and let it look up these `addresses`.

    Nobody else sees it, and no file is left. The process must have one thread.

    Errors: `OSError` where this user may not do so.
    """
    _unshare()
    socket.sethostname(host)
    with open(_HOSTS) as file:
        lines = [file.read(), *(f"{a} {name}" for name, a in addresses.items())]
    _mount(b"none", b"/", flags=_PRIVATE)
    # a file without a name cannot be mounted: it lies in memory, in a folder that goes
    _mount(b"tmpfs", _SPARE, kind=b"tmpfs")
    path = _SPARE + _HOSTS[4:]
    with open(path, "w") as file:
        file.write("\n".join([*lines, ""]))
    _mount(path, _HOSTS, flags=_BIND)
    _checked(linux.libc().umount2(_SPARE, _DETACH))


def enter(pid: int) -> None:
    """Move this process to where process `pid` is: its host name, its files.

    Errors: `OSError` where this user may not do so.
    """
    theirs = [f"/proc/{pid}/ns/{kind}" for kind in _KINDS]
    mine = [f"/proc/self/ns/{kind}" for kind in _KINDS]
    others = [a for a, b in zip(theirs, mine) if os.readlink(a) != os.readlink(b)]
    files = [os.open(path, os.O_RDONLY) for path in others]  # before /proc may change
    for file in files:
        _checked(linux.libc().setns(file, 0))
        os.close(file)


def _unshare():
    user, group = os.geteuid(), os.getegid()
    if linux.libc().unshare(_MOUNT | _HOST) == 0:
        return
    # without the right to it, this user may have it among processes of their own
    _checked(linux.libc().unshare(_USER | _MOUNT | _HOST))
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1"}
    for name, text in {**maps, "gid_map": f"{group} {group} 1"}.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _mount(source, target, *, kind=None, flags=0):
    flags = ctypes.c_ulong(flags)
    _checked(linux.libc().mount(source, target, kind, flags, None))


def _checked(code):
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
