"""Row 4: the notebook is interrupted, killed, restarted or closed during a launch."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from jupyter_client import BlockingKernelClient

from tests import ports
from tests.fault_table import case
from tests.faults.cells import PRELUDE, SOON, hangs, launches, opened
from tests.kernels import Cells, error
from tests.leftovers import becomes, below, lives

WHERE = "LaunchInterrupted: train on 2 ranks: interrupted"


@pytest.mark.parametrize(
    "times",
    [case(4, "interrupted once", 1), case(4, "twice", 2), case(4, "five times", 5)],
)
def test_an_interrupt_stops_all_ranks_and_shows_where_they_were(kernel, times):
    message_id = hangs(kernel)
    began = time.monotonic()
    for _ in range(times):
        kernel.manager.interrupt_kernel()
    text = error(kernel.finish(message_id))
    assert kernel.ended - began < SOON
    assert WHERE in text
    assert "ranks 0, 1 were in cell In[" in text and "time.sleep(1000)" in text
    assert launches(kernel)


STOP_SERVER = """from course_lib.launching import client
import signal
os.kill(client.current_server().process.pid, signal.SIGSTOP)"""
NEW_SERVER = "os.environ['TORCH_SOMETHING'] = str(time.time())"
TITLE = "2 ranks on the CPU"


@pytest.mark.parametrize(
    "before",
    [
        case(4, "interrupted while the server imports", NEW_SERVER),
        case(4, "interrupted while the server gives no answer", STOP_SERVER),
    ],
)
def test_an_interrupt_before_the_ranks_run_is_heard(kernel, before):
    message_id = kernel.send(f"{before}\ncl.launch(rank_of, world_size=2)")
    kernel.until_shown(message_id, TITLE)
    began = time.monotonic()
    kernel.manager.interrupt_kernel()
    messages = kernel.finish(message_id)
    assert kernel.ended - began < SOON
    if before is STOP_SERVER:
        kernel.run("os.kill(client.current_server().process.pid, signal.SIGCONT)")
        assert "rank_of on 2 ranks: interrupted" in error(messages)
    else:  # it may just have been done
        assert "interrupted" in (error(messages) or "interrupted")
    assert launches(kernel)


@pytest.mark.fault(4, "interrupted while an argument is packed")
def test_an_interrupt_while_an_argument_is_packed_is_heard(kernel):
    cell = """class Slow:
    def __reduce__(self):
        print("packing")
        time.sleep(1000)

cl.launch(lambda rank, world_size, x: x, Slow())"""
    message_id = kernel.send(cell)
    kernel.until_shown(message_id, "packing")
    kernel.manager.interrupt_kernel()
    text = error(kernel.finish(message_id))
    assert "<lambda> on 2 ranks: interrupted before they were started" in text
    assert launches(kernel)


IN_START = """start = client.ForkServer.start
def interrupted(self, *job):
    client.ForkServer.start = start
    link = start(self, *job)
    signal.raise_signal(signal.SIGINT)
    return link
client.ForkServer.start = interrupted"""
IN_CLOSE = """close = client.ForkedHost.close
def interrupted(self):
    client.ForkedHost.close = close
    signal.raise_signal(signal.SIGINT)
    close(self)
client.ForkedHost.close = interrupted"""
IN_WAITING = """receive, calls = client.sockets.receive, []
def interrupted(link):
    message = receive(link)
    if message[0] is None:
        client.sockets.receive = receive
        signal.raise_signal(signal.SIGINT)
    return message
client.sockets.receive = interrupted"""


@pytest.mark.parametrize(
    "trap",
    [
        case(4, "interrupted as the agent is forked", IN_START),
        case(4, "interrupted at the start of tear-down", IN_CLOSE),
        case(4, "interrupted at the end of tear-down", IN_WAITING),
    ],
)
@pytest.mark.parametrize("fn", ["rank_of", "lambda rank, world_size: 1 / 0"])
def test_an_interrupt_at_start_or_in_tear_down_leaves_nothing(kernel, trap, fn):
    before = f"from course_lib.launching import client\nimport signal\n{trap}"
    text = error(kernel.run(f"{before}\ncl.launch({fn}, world_size=2)"))
    assert "interrupted" in text or "ZeroDivisionError" in text
    assert "Traceback" not in text
    assert launches(kernel)


@pytest.mark.fault(4, "interrupted while a failure is reported")
def test_an_interrupt_while_a_failure_is_reported_is_heard(kernel):
    cell = """from course_lib.launching import launcher
import signal
fail = launcher._Launch._fail
def interrupted(self):
    launcher._Launch._fail = fail
    signal.raise_signal(signal.SIGINT)
launcher._Launch._fail = interrupted
cl.launch(lambda rank, world_size: 1 / 0)"""
    assert "LaunchInterrupted" in error(kernel.run(cell))
    assert launches(kernel)


def ends(processes, number, pid):
    """True if all `processes` end soon after the signal."""
    assert len(processes) >= 4  # the server, an agent, two ranks
    os.kill(pid, number)
    return becomes(lambda: not any(map(lives, processes)))


# as JupyterLab starts one, not forked
STARTED = {"within": ["env"]}


@pytest.fixture
def own():
    """Opens a kernel that the test may kill."""
    with contextlib.ExitStack() as stack:

        def own(**options):
            kernel = opened(**options)
            stack.callback(kernel.close)
            return kernel

        yield own


@pytest.mark.parametrize(
    "number, how",
    [
        case(4, "kernel killed by SIGKILL", signal.SIGKILL, STARTED),
        case(4, "kernel ended by SIGTERM", signal.SIGTERM, {}),
    ],
)
def test_a_killed_kernel_takes_server_and_ranks_with_it(own, number, how):
    kernel = own(**how)
    hangs(kernel)
    assert ends(below(kernel.pid), number, kernel.pid)


@pytest.mark.fault(4, "kernel killed while the server imports")
def test_a_kernel_killed_during_start_up_leaves_nothing(own):
    kernel = own()
    message_id = kernel.send(f"{NEW_SERVER}\ncl.launch(rank_of, world_size=2)")
    kernel.until_shown(message_id, TITLE)
    # the title is shown before the server is started
    assert becomes(lambda: below(kernel.pid))
    processes = below(kernel.pid)
    os.kill(kernel.pid, signal.SIGKILL)
    assert becomes(lambda: not any(map(lives, processes)))


@pytest.mark.parametrize(
    "now, how",
    [
        case(4, "kernel restarted", False, {}),
        case(4, "restarted at once", True, STARTED),
    ],
)
def test_a_restarted_kernel_leaves_no_ranks_of_the_one_before(own, now, how):
    kernel = own(**how)
    hangs(kernel)
    processes = below(kernel.pid)
    began = time.monotonic()
    kernel.manager.restart_kernel(now=now)
    assert becomes(lambda: not any(map(lives, processes)))
    assert time.monotonic() - began < SOON
    kernel.client.wait_for_ready(timeout=60)
    kernel.run(PRELUDE)
    assert launches(kernel)


@pytest.mark.fault(4, "notebook closed with no launch running")
def test_an_idle_kernel_takes_its_server_with_it(own):
    kernel = own()
    assert launches(kernel)
    assert becomes(lambda: len(below(kernel.pid)) == 1)
    servers = below(kernel.pid)
    kernel.manager.shutdown_kernel(now=False)
    assert becomes(lambda: not lives(servers[0]))


class Lab:
    """JupyterLab with one notebook kernel, started over its own interface."""

    def __init__(self, folder):
        self.folder, self.port, self.clients = folder, ports.free(), []
        log = (folder / "log.txt").open("w")
        options = ["--no-browser", "--allow-root", f"--port={self.port}"]
        options += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
        options += ["--ServerApp.disable_check_xsrf=True", ports.FOR_JUPYTERLAB]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "FAULT_MARK": str(folder / "mark")}
            | {"JUPYTER_RUNTIME_DIR": str(folder / "run")},
            start_new_session=True,
        )
        log.close()

    def kernel(self):
        """The cells of a new kernel."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/kernels", data=b"{}", method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            name = json.load(answer)["id"]
        file = self.folder / "run" / f"kernel-{name}.json"
        assert json.loads(file.read_text())["shell_port"] < 29_000  # as `ports` has it
        client = BlockingKernelClient(connection_file=str(file))
        self.clients.append(client)
        client.load_connection_file()
        # a kernel that starts on a busy machine misses heartbeats: it is not dead
        client.start_channels(hb=False)
        client.wait_for_ready(timeout=60)
        return Cells(client)

    def close(self):
        self.process.kill()
        self.process.wait()
        for client in self.clients:  # as garbage they may wait for ever for a socket
            client.stop_channels()
            client.context.destroy(linger=0)

    def listens(self):
        with socket.socket() as knock:
            return knock.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, number):
        self.process.send_signal(number)
        if number == signal.SIGINT:  # the first one asks whether it is meant
            while self.process.poll() is None:
                self.process.send_signal(number)
                time.sleep(0.2)


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    try:
        assert becomes(lab.listens), (tmp_path / "log.txt").read_text()
        yield lab
    finally:
        lab.close()


@pytest.mark.parametrize(
    "number",
    [
        case(4, "JupyterLab closed by Ctrl-C", signal.SIGINT),
        case(4, "JupyterLab closed by SIGTERM", signal.SIGTERM),
        case(4, "JupyterLab killed by SIGKILL", signal.SIGKILL),
    ],
)
def test_when_jupyterlab_ends_its_kernels_and_their_ranks_end(lab, number):
    cells = lab.kernel()
    cells.run(PRELUDE)
    hangs(cells)
    processes = below(lab.process.pid)
    assert len(processes) >= 5  # the kernel, its server, an agent, two ranks
    lab.stop(number)
    assert becomes(lambda: not any(map(lives, processes)))
    cells.client.stop_channels()
