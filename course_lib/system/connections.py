"""What went through this process's TCP connections, as the Linux kernel counted it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import NamedTuple

# in `struct tcp_info` of linux/tcp.h, the same on all processors
_RECEIVED, _NOT_SENT, _SENT = 128, 144, 200
_LENGTH = 216  # that it has since Linux 4.19
_CLOSED_THERE = 8  # its first byte, TCP_CLOSE_WAIT: the farewell counts as a byte


class Connection(NamedTuple):
    """One end of a connection: its address, that of the other end; bytes."""

    local: tuple[str, int]
    remote: tuple[str, int]
    written: int
    received: int


def tcp_connections() -> dict[str, Connection]:
    """Return those that are open, each under a name that no other one has.

    Elsewhere than on Linux there are none: their bytes are not known.
    """
    connections = {}
    with contextlib.suppress(OSError):
        for file in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(f"/proc/self/fd/{file}")
                if name.startswith("socket:"):
                    connections[name] = _connection(int(file))
    return {name: end for name, end in connections.items() if end}


def _connection(file):
    """Return the connection behind a file number, None where there is none."""
    with socket.socket(fileno=os.dup(file)) as end:
        inet = end.family in (socket.AF_INET, socket.AF_INET6)
        if not inet or end.type != socket.SOCK_STREAM:
            return None
        remote = end.getpeername()[:2]  # of one that listens this fails
        info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
        if len(info) < _LENGTH:
            return None
        (received,) = struct.unpack_from("Q", info, _RECEIVED)
        received -= info[0] == _CLOSED_THERE
        (waiting,) = struct.unpack_from("I", info, _NOT_SENT)
        sent, again = struct.unpack_from("QQ", info, _SENT)
        written = sent - again + waiting
        return Connection(end.getsockname()[:2], remote, written, received)
