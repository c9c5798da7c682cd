"""Ports for those who are told theirs before they use it: kernels and JupyterLab.

Bound to port 0, one learns a port that is free now; once released, it is anybody's who
asks the same way, and in these tests hundreds a minute do. A kernel that finds its port
taken ends. So ports are chosen where Linux gives none to who names none, and each
worker of pytest-xdist has some of its own.
"""

import contextlib
import os
import secrets
import socket
from pathlib import Path
from unittest import mock

from jupyter_client import connect

FOR_JUPYTERLAB = f"--config={Path(__file__).with_name('jupyter_config.py')}"
_FIRST, _EACH, _WORKERS = 10_000, 1_000, 19  # below 29500, which a test takes


def free(ip: str = "127.0.0.1") -> int:
    """A port nobody else is given until it is in use."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    start = _FIRST + worker % _WORKERS * _EACH
    while True:
        port = start + secrets.randbelow(_EACH)
        with socket.socket() as asked, contextlib.suppress(OSError):
            asked.bind((ip, port))
            return port


def for_kernels():
    """Let kernels that this process starts have these ports, within this context."""

    def find(self, ip):
        while (port := free(ip)) in self.currently_used_ports:
            pass
        self.currently_used_ports.add(port)
        return port

    return mock.patch.object(connect.LocalPortCache, "find_available_port", find)
