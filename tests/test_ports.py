"""Ports for tests: nobody else's, neither now nor in the next moment."""

import os
import secrets
import socket

from tests import ports
from tests.kernels import Kernel


def test_kernels_get_ports_of_this_worker():
    kernel = Kernel()
    kernel.close()
    told = kernel.manager.get_connection_info()
    given = {told[name] for name in told if name.endswith("_port")}
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    assert len(given) == 5
    assert {port // 1000 - 10 for port in given} == {number % 19}


def test_workers_have_ports_of_their_own(monkeypatch):
    given = []
    for worker in range(19):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        given.append(ports.free() // 1000)
    assert len(set(given)) == 19
    assert all(10 <= thousand < 29 for thousand in given)


def test_a_port_that_is_taken_is_not_given(monkeypatch):
    with socket.create_server(("127.0.0.1", ports.free())) as taken:
        number = taken.getsockname()[1] % 1000
        draws = iter([number, number, (number + 1) % 1000, (number + 2) % 1000])
        monkeypatch.setattr(secrets, "randbelow", lambda _: next(draws))
        assert ports.free() % 1000 in {(number + 1) % 1000, (number + 2) % 1000}
