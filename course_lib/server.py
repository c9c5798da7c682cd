"""The warm process server: it imports torch once and forks an agent for every launch.

The notebook's own process is never forked: it has threads, and a forked copy of it
would hang in the first parallel operator.
"""

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading

from course_lib import linux, wire
from course_lib.errors import LaunchError

# read when torch or its libraries are imported: a change needs a new server
_READ_AT_IMPORT = (
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "KMP_",
    "TORCH_",
    "PYTORCH_",
    "LD_",
    "PYTHON",
)
# imported while nobody waits; each would cost a rank a second or two at first use
_WANTED_LATER = ("course_lib.recorder", "torch._dynamo")
_IDLE = 0.3  # seconds without a launch until the next of these is imported
_PATIENCE = 10  # seconds until the kernel stops waiting for processes to be gone

_lock = threading.Lock()
_current = None


class Server:
    """The kernel's handle of its process server."""

    def __init__(self):
        self.environment = _import_environment()
        self.owner = os.getpid()
        self.log = open(os.memfd_create("course_lib server log"), "rb", buffering=0)
        self.control, theirs = wire.pair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt of the cell is not meant for it
                env={**_QUIET, **os.environ, **_SERVER_ENVIRONMENT},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
            )

    def serves(self) -> bool:
        """True while this server can start ranks for this process as it is now."""
        mine = self.owner == os.getpid() and self.environment == _import_environment()
        return mine and self.process.poll() is None

    def start(self, job: dict, files: list[int]) -> socket.socket:
        """Have an agent forked for `job`; the link to it comes back."""
        link, theirs = wire.pair()
        with theirs:
            wire.send(self.control, job, [theirs.fileno(), *files])
        return link

    def last_words(self) -> str:
        """What the server wrote before it ended."""
        return os.pread(self.log.fileno(), 1 << 16, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """Take no more launches; the server ends when those in flight have ended."""
        self.control.close()


def current() -> Server:
    """The server of this process, started now if there is none that fits."""
    global _current
    with _lock:
        if _current is None or not _current.serves():
            if _current is not None:
                _current.close()
            _current = Server()
        return _current


@atexit.register
def close() -> None:
    """End the server of this process at once; the next launch starts a new one."""
    global _current
    if _current is not None and _current.owner == os.getpid():
        _current.control.close()
        _current.process.kill()  # without waiting for what it imports
        _current.process.wait()
        _current.log.close()
        _current = None


class WarmHost:
    """The ranks of one launch, started by an agent that the server forks."""

    how = ""  # nothing to say: this is the quick way

    def __init__(self, job: dict, files: list[int]):
        self.server, self.answered = current(), False
        with self._or_error():
            self.link = self.server.start(job, files)

    def start_rank(self, rank: int, channel) -> None:
        """Start one rank; `channel` holds the files for output, result and stacks."""
        with self._or_error():
            wire.send(self.link, {"rank": rank}, channel)

    def wait_on(self) -> list:
        """Files that become readable when there is news."""
        return [self.link]

    def news(self) -> list[dict]:
        """The messages that came since the last look: ranks that started or ended."""
        messages = []
        while not self._closed and wire.waits(self.link):
            message, _ = wire.receive(self.link)
            if message is None or "broken" in message:
                raise self._error(message)
            self.answered = True
            messages.append(message)
        return messages

    def signal(self, number: int, ranks: list[int]) -> None:
        """Send a signal to these ranks."""
        if self._closed:
            return
        with self._or_error():
            wire.send(self.link, {"signal": number, "ranks": ranks})

    @property
    def _closed(self):
        """True after `close`, also one that an interrupt cut short."""
        return self.link.fileno() < 0

    @contextlib.contextmanager
    def _or_error(self):
        try:
            yield
        except OSError:
            raise self._error() from None

    def _error(self, message=None):
        """Why this launch cannot go on."""
        if message:
            return LaunchError(f"this launch could not be run:\n{message['broken']}")
        code = self.server.process.poll()
        who = "the launch's agent" if code is None else f"the server (exit code {code})"
        return LaunchError(
            f"{who} ended, and the ranks with it. Launch again: what is needed starts"
            f" by itself.\n{self.server.last_words()}".rstrip()
        )

    def close(self) -> None:
        """End all processes of the launch and wait until they are gone."""
        if self._closed:
            return
        with self.link:
            with contextlib.suppress(OSError):
                self.link.shutdown(socket.SHUT_WR)
            if not self.answered:
                return  # the server is busy; its agent will find the link closed
            self.link.settimeout(_PATIENCE)
            with contextlib.suppress(TimeoutError):
                while wire.receive(self.link)[0] is not None:
                    pass


# c10d warns of every name that it cannot look up; a learner can set it otherwise
_QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
_SERVER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a process with threads cannot be forked safely
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # ask for GPUs without starting CUDA
    "RES_OPTIONS": "timeout:1 attempts:1",  # c10d asks a name server about 127.0.0.1
    "MPLBACKEND": "agg",
}
_START = (
    f"import sys; sys.path[0] = {os.path.dirname(os.path.dirname(__file__))!r}; "
    "from course_lib import server; server.main(int(sys.argv[1]), int(sys.argv[2]))"
)


def _import_environment():
    return {k: v for k, v in os.environ.items() if k.startswith(_READ_AT_IMPORT)}


def main(control: int, owner: int) -> None:
    """Serve the process `owner` until it ends."""
    control = socket.socket(fileno=control)
    owner = os.pidfd_open(owner)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # until a rank can tell where it is, the question must not end it
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    linux.adopt_orphans()  # of an agent that is killed
    _warm_up()
    linux.meet_without_files()  # so will the ranks
    wanted, agents = list(_WANTED_LATER), {}
    while True:
        files, patience = [control, owner, *agents], _IDLE if wanted else None
        busy, _, _ = select.select(files, [], [], patience)
        for ended in agents.keys() & set(busy):
            _bury(agents, ended)
        if owner in busy:
            break
        if control in busy:
            if not _serve(control, owner, agents):
                break
        elif wanted and not busy:
            _import(wanted.pop(0))
            if not wanted:
                linux.use_huge_pages()
    for ended in list(agents):
        _bury(agents, ended)


def _serve(control, owner, agents):
    """Fork an agent for the next job; False when the notebook has gone."""
    from course_lib import agent

    job, files = wire.receive(control)
    if job is None:
        return False
    pid = os.fork()
    if pid == 0:
        control.close()
        for file in agents:
            os.close(file)
        agent.main(socket.socket(fileno=files[0]), owner, job, files=files[1:])
    for file in files:
        os.close(file)
    agents[os.pidfd_open(pid)] = pid
    return True


def _bury(agents, ended):
    """Wait for the end of an agent; kill what one that was killed left behind."""
    _, status = os.waitpid(agents.pop(ended), 0)
    os.close(ended)
    if status:
        linux.kill_orphans(agents.values())


def _warm_up():
    """Pay once for what each rank would pay for: imports, first uses, name look-ups."""
    import io

    import torch.distributed

    from course_lib import agent, payload  # noqa: F401  (agent: for the launches)

    buffer = io.BytesIO()
    payload.dump((main, torch.zeros(1)), buffer)
    buffer.seek(0)
    payload.load(buffer)
    torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    _settle()


def _import(name):
    try:
        __import__(name)
    except Exception:  # the ranks will say so, if they need it
        pass
    _settle()


def _settle():
    """Keep the collector from touching, and so copying, the pages that ranks share."""
    import gc

    gc.collect()
    gc.freeze()
    gc.disable()
