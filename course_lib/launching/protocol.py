"""What kernel, fork server, agent and ranks tell each other, in types."""

import socket
from typing import Any, NamedTuple

from course_lib.stacks import Frame
from course_lib.system import sockets


class Job(NamedTuple):
    """A launch, for what starts its ranks; `nodes` if agents of torchrun do."""

    world_size: int
    port: int  # of the store
    trace: bool | list[int] = False  # all, or these training steps
    nodes: int | None = None


class Nodes(NamedTuple):
    """A launch on nodes: how many ranks each has, and the variables of its GPUs.

    They are `named` where the system allows it, and have `patience` seconds to join.
    """

    job: Job
    shares: list[int]
    gpus: list[dict[str, str]]
    named: bool
    patience: float


class Place(NamedTuple):
    """Where a rank stands: its number, its launch.

    Under torchrun `environ` holds the variables that it set, and the store is its own.
    """

    rank: int
    job: Job
    environ: dict[str, str] | None = None


class Fork(NamedTuple):
    """To a fork server: run `main` of a module in a child."""

    module: str
    arguments: Any


class Start(NamedTuple):
    """To an agent: start this rank on the files that come along."""

    rank: int


class Signal(NamedTuple):
    """To an agent: send a signal to these ranks."""

    number: int
    ranks: list[int]


class RankStarted(NamedTuple):
    """From an agent; `place` is which local rank of which node it is, of several."""

    rank: int
    pid: int
    place: str = ""


class RankEnded(NamedTuple):
    """From an agent: the exit code (negative: the signal), and when it was seen."""

    rank: int
    code: int
    at: float  # seconds on the machine's monotonic clock


class Remark(NamedTuple):
    """From an agent: what the title of the launch should say, too."""

    text: str


class LaunchBroken(NamedTuple):
    """From an agent: why the launch cannot go on."""

    text: str


_KINDS = (Fork, Start, Signal, RankStarted, RankEnded, Remark, LaunchBroken)
_BY_NAME = {kind.__name__: kind for kind in _KINDS}


def send(link: socket.socket, message: tuple, files=()) -> None:
    """Send one message, with copies of the open files."""
    sockets.send(link, {type(message).__name__: message}, files)


def receive(link: socket.socket) -> tuple[Any, list[int]]:
    """Return the next message and its open files; None when the other side is gone."""
    data, files = sockets.receive(link)
    if data is None:
        return None, files
    ((name, fields),) = data.items()
    return _BY_NAME[name](*fields), files


class Surroundings(NamedTuple):
    """What of the notebook's process the ranks take on; `devices` are virtual GPUs.

    `argv` are a script's arguments; in a notebook they are the kernel's, and left out.
    `logs` are the root logger's level and, for each handler that writes to the cell,
    `stdout` or `stderr`, its level and its formatter.
    """

    environ: dict[str, str]
    path: list[str]
    folder: str | None
    sources: dict[str, tuple]  # of cells, for linecache
    devices: dict | None
    logs: tuple[int, list[tuple]]
    argv: list[str]


class Cause(NamedTuple):
    """An exception by the name of its class, and its message."""

    kind: str
    text: str


class Record(NamedTuple):
    """What a rank wrote of its end; no `status` if it did not come to that.

    `returned`: its `value`, what it sent and recorded, the GPUs that it used, and how
    long it ran and lacked a core. `raised` or `exited`: the exception, those that it
    came from (`chain`), its stack, when, with how many virtual GPUs, and `hints`, what
    is known only there. `unsendable`: the `kind` of a value that cannot travel.
    """

    status: str = ""
    value: Any = None
    traffic: Any = None
    events: list | None = None
    gpus: list[str] = []
    seconds: float = 0.0
    starved: float = 0.0
    kind: str = ""
    text: str = ""
    chain: tuple[Cause, ...] = ()
    frames: tuple[Frame, ...] = ()
    details: str = ""  # the whole traceback
    virtual: int = 0
    at: float | None = None
    exit: int = 0
    hints: tuple[str, ...] = ()
