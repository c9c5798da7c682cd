"""The client of fork servers: handles, and the server that starts our launches.

The notebook's own process is never forked: it has threads, and a forked copy of it
would hang in the first parallel operator.
"""

import atexit
import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from course_lib.errors import LaunchError
from course_lib.launching import protocol
from course_lib.launching.protocol import Fork, Job, LaunchBroken, Nodes, Signal, Start
from course_lib.system import sockets

# read when torch or its libraries are imported: a change needs a new server
_IMPORTED = ("OMP_", "MKL_", "OPENBLAS_", "KMP_", "TORCH_", "PYTORCH_", "LD_", "PYTHON")
# scikit-learn sets them as it is imported, in a rank as well
_SET_BY_IMPORTS = {"KMP_DUPLICATE_LIB_OK": "True", "KMP_INIT_AT_FORK": "FALSE"}
# c10d warns of every name that it cannot look up; a learner can set it otherwise
_QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
_VARIABLES = {
    "OMP_NUM_THREADS": "1",  # a process with threads cannot be forked safely
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # ask for GPUs without starting CUDA
    "RES_OPTIONS": "timeout:1 attempts:1",  # c10d asks a name server about 127.0.0.1
    "MPLBACKEND": "agg",
}
_FORKSERVER = "course_lib.launching.forkserver"
# what `python -c` runs: `main` of a module of the package, with arguments
START = (
    f"import importlib, sys; sys.path[0] = {str(Path(__file__).parents[2])!r}; "
    "importlib.import_module(sys.argv[1]).main(*sys.argv[2:])"
)
_PATIENCE = 10  # seconds until the kernel stops waiting for processes to be gone

_lock = threading.Lock()
_current: "ForkServer | None" = None
_preload: tuple[str, ...] = ()


class ForkServer:
    """A handle of a fork server: `main(control, owner, *arguments)` of a module.

    It has the variables of this process and `variables`.
    """

    def __init__(self, module: str, *arguments: str, **variables: str):
        self.module, self.arguments = module, arguments
        self.environment, self._read = environment(**variables), _read_at_import()
        self.owner = os.getpid()
        self.log = _log()
        self.control, theirs = sockets.pair()
        with theirs:
            self.process = self._start(theirs)

    def _start(self, theirs):
        """Start the process that serves the other end of `control`."""
        numbers = map(str, (theirs.fileno(), self.owner))
        return subprocess.Popen(
            [sys.executable, "-c", START, self.module, *numbers, *self.arguments],
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # an interrupt of the owner is not meant for it
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )

    def lives(self) -> bool:
        """Return True while it can fork."""
        return self.process.poll() is None

    def fits(self) -> bool:
        """Return True while it can start ranks for this process as that is now."""
        mine = self.owner == os.getpid() and self._read == _read_at_import()
        return mine and self.lives()

    def start(self, module: str, arguments, files=()) -> socket.socket:
        """Have a child forked that runs `main` of a module; the link to it comes back.

        Errors: `OSError` if the server has ended.
        """
        link, theirs = sockets.pair()
        with theirs:
            child = Fork(module, arguments)
            protocol.send(self.control, child, [theirs.fileno(), *files])
        return link

    def last_words(self) -> str:
        """Return what the server wrote before it ended."""
        return os.pread(self.log.fileno(), 1 << 16, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """End it at once; its children end when their links are closed."""
        self.control.close()
        self.process.kill()  # without waiting for what it imports
        self.process.wait()
        self.log.close()


def current_server() -> ForkServer:
    """Return the server of this process, started now if there is none that fits."""
    global _current
    with _lock:
        if _current is None or not _current.fits():
            if _current is not None:
                _current.control.close()  # it ends when its launches have ended
            _current = ForkServer(_FORKSERVER, *_preload)
        return _current


def set_preload(modules: list[str]) -> None:
    """Let the next server import these, too, while no launch waits."""
    global _preload
    _preload = tuple(modules)


def use_server(server: ForkServer) -> None:
    """Let this server start the launches of this process from now on."""
    global _current
    with _lock:
        _current = server


@atexit.register
def close_server() -> None:
    """End the server of this process at once; the next launch starts a new one."""
    global _current
    if _current is not None and _current.owner == os.getpid():
        _current.close()
        _current = None


class ForkedHost:
    """The ranks of one launch, started by an agent that the server forks.

    Its `link` becomes readable when there is news.
    """

    how = ""  # nothing to say: this is the quick way
    agents: tuple[str, ...] = ()  # of torchrun, which takes no part
    _agent = "course_lib.launching.agent"

    def __init__(self, job: Job | Nodes, files: list[int]):
        self.server, self.answered = current_server(), False
        with self._or_error():
            self.link = self.server.start(self._agent, job, files)

    def start_rank(self, rank: int, channel) -> None:
        """Start one rank; `channel` holds the files for output, result and stacks."""
        with self._or_error():
            protocol.send(self.link, Start(rank), channel)

    def news(self) -> list:
        """Return the messages since the last look: which ranks started or ended."""
        news = []
        while not self._closed and sockets.waits(self.link):
            message, _ = protocol.receive(self.link)
            if message is None or isinstance(message, LaunchBroken):
                raise self._error(message)
            self.answered = True
            news.append(message)
        return news

    def signal(self, number: int, ranks: list[int]) -> None:
        """Send a signal to these ranks."""
        if self._closed:
            return
        with self._or_error():
            protocol.send(self.link, Signal(number, ranks))

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
            return LaunchError(f"this launch could not be run:\n{message.text}")
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
                while sockets.receive(self.link)[0] is not None:
                    pass


class NodesHost(ForkedHost):
    """The ranks of a launch on several nodes, each with an agent of torchrun."""

    _agent = "course_lib.launching.nodes"
    named = True  # with host names of their own, where the system allows it
    patience = 60.0  # seconds until all nodes must have joined

    def __init__(self, job: Job, files: list[int]):
        count = job.nodes or 1
        shares = [len(range(k, job.world_size, count)) for k in range(count)]
        # by the first rank of the node
        self._logs = {sum(shares[:node]): _log() for node in range(count)}
        gpus = gpus_of_nodes(shares)
        super().__init__(Nodes(job, shares, gpus, self.named, self.patience), files)

    def start_rank(self, rank: int, channel) -> None:
        """Have a rank started; `channel` holds the files for output, result, stacks."""
        logs = [self._logs[rank].fileno()] if rank in self._logs else []
        super().start_rank(rank, [*channel, *logs])

    def close(self) -> None:
        """End all processes of the launch; then `agents` is what torchrun wrote."""
        super().close()
        for log in self._logs.values():
            with log:
                log.seek(0)  # the place in it is that of those who wrote
                self.agents = *self.agents, log.read().decode(errors="replace")
        self._logs = {}


def _log():
    return open(os.memfd_create("course_lib log"), "rb", buffering=0)


def gpus_of_nodes(shares: list[int]) -> list[dict]:
    """Return the variable that leaves each node GPUs of its own; none if there are few.

    Of a GPU that two nodes saw, the ranks of each would believe that it is theirs.
    """
    import torch

    count = torch.cuda.device_count()
    if count < sum(shares):
        return [{"CUDA_VISIBLE_DEVICES": ""} if count else {} for _ in shares]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    ids = iter(visible.split(",") if visible else map(str, range(count)))
    own = (",".join(itertools.islice(ids, share)) for share in shares)
    return [{"CUDA_VISIBLE_DEVICES": names} for names in own]


def environment(**variables: str) -> dict[str, str]:
    """Return the variables of a fork server that this process starts, with more."""
    return {**_QUIET, **os.environ, **_VARIABLES, **variables}


def _read_at_import():
    read = {k: v for k, v in os.environ.items() if k.startswith(_IMPORTED)}
    return dict(read.items() - _SET_BY_IMPORTS.items())
