"""Messages between notebook, server and agents: small JSON objects and open files."""

import json
import select
import socket

_LARGEST = 1 << 16
_MOST_FILES = 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that keep message boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock, message: dict, files=()) -> None:
    """Send one message, with copies of the open files."""
    socket.send_fds(sock, [json.dumps(message).encode()], list(files))


def waits(sock) -> bool:
    """Return True if `receive` would give something at once."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def receive(sock) -> tuple[dict | None, list[int]]:
    """Return the next message and its open files; None when the other side is gone."""
    try:
        data, files, _, _ = socket.recv_fds(sock, _LARGEST, _MOST_FILES)
    except ConnectionError:
        return None, []
    return (json.loads(data) if data else None), files
