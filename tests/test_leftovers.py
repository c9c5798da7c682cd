"""What counts as left behind."""

import subprocess
import sys

import pytest

from tests import leftovers

LISTENS = """
import socket, sys
kinds = socket.AF_INET, socket.AF_INET6
made = [socket.create_server((host, 0), family=kind)
        for host, kind in zip(("127.0.0.1", "::1"), kinds)]
print(*(one.getsockname()[1] for one in made), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_socket_on_which_a_child_listens_is_found_while_it_does():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LISTENS], **pipes) as child:
        ports = [int(port) for port in child.stdout.readline().split()]
        mine = {port for pid, port in leftovers.sockets() if pid == child.pid}
        assert mine == set(ports) and len(ports) == 2
    assert child.pid not in {pid for pid, _ in leftovers.sockets()}
