"""Start ranks from a notebook cell, show what they print, collect what they return."""

import inspect
import os
import pickle
import selectors
import signal
import socket
import sys
import tempfile
import time

import torch

from course_lib import linux, outcome, payload, stacks, worker
from course_lib.errors import LaunchInterrupted, LaunchTimeout, UsageError, whereabouts
from course_lib.output import Screen
from course_lib.results import Results

_RESERVED = ("world_size", "trace", "timeout", "nodes")
_PATIENCE = 1.0  # seconds that a symptom waits for its cause
_ANSWER = 0.5  # seconds that a rank has to tell where it is
_RANK_MEMORY = 100 << 20  # bytes a rank needs beside the learner's own tensors
_RANK_FILES = 8


def launch(
    fn, *args, world_size=None, trace=False, timeout=None, nodes=None, **kwargs
) -> Results:
    """Run `fn(rank, world_size, *args, **kwargs)` in `world_size` fresh processes.

    `fn` may be defined in a cell. The default is one rank per GPU, and two without
    GPUs. Inside, `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and the rest are set as under
    torchrun, so `torch.distributed.init_process_group` needs nothing more. With
    `trace=True` the events of every rank are recorded; after `timeout` seconds all
    ranks are stopped.

    `results[rank]` is what that rank returned (tensors arrive on the CPU).

    Errors: `UsageError` if the call cannot work; `LaunchError` with rank and line when
    a rank fails; `LaunchTimeout` and `LaunchInterrupted` with the place where each rank
    was.
    """
    _refuse_inside_rank()
    if nodes is not None:
        raise UsageError(
            "launch(nodes=...) is kept for several machines and does nothing yet"
        )
    world_size = _checked_size(world_size)
    names = _checked_call(fn, world_size, args=args, kwargs=kwargs)
    if timeout is not None and not timeout > 0:
        raise UsageError(
            f"timeout={timeout!r}: give a number of seconds above 0, or leave it out"
        )
    with _Launch(fn, world_size, trace) as run:
        payload.pack(fn, args, kwargs, names=names, file=run.body)
        run.start()
        run.follow(timeout)
        return run.results()


def _refuse_inside_rank():
    if worker.inside:
        raise UsageError(
            f"rank {os.environ.get('RANK')} called launch(): ranks cannot start ranks."
            " Call launch() from the notebook, outside the function that it runs."
        )


def _checked_size(world_size):
    if world_size is None:
        return torch.cuda.device_count() or 2
    if isinstance(world_size, bool) or not hasattr(world_size, "__index__"):
        raise UsageError(
            f"world_size={world_size!r} is a {type(world_size).__name__}:"
            " give a whole number of ranks"
        )
    size = world_size.__index__()
    if size < 1:
        raise UsageError(f"world_size={size}: give at least 1 rank")
    most = most_ranks()
    if size > most:
        raise UsageError(
            f"world_size={size}: this machine can bear {most} ranks now"
            " (memory, open files)"
        )
    return size


def most_ranks() -> int:
    """How many ranks this machine can bear now, by free memory and open files."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/dev/fd"))
    by_files = (soft - opened - 64) // _RANK_FILES if soft > 0 else 4096
    return max(1, min(by_files, _free_memory() // _RANK_MEMORY))


def _free_memory():
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) << 10
    except OSError:
        return 64 << 30  # not Linux: only the open files are counted


def _checked_call(fn, world_size, *, args, kwargs):
    """Refuse what cannot take rank and world size; the names of `args` come back."""
    if not callable(fn):
        raise UsageError(
            f"launch() needs a function of (rank, world_size), got {fn!r:.60} of type"
            f" {type(fn).__name__}. Write launch(train), not launch(train())."
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return [f"argument {i}" for i in range(len(args))]
    name = getattr(fn, "__name__", type(fn).__name__)
    _refuse_reserved(name, signature)
    try:
        bound = signature.bind(0, world_size, *args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"{name}{signature} cannot be called as"
            f" {name}(rank, world_size{_more(args, kwargs)}):"
            f" {error}. Its first two parameters must be rank and world_size."
        ) from None
    named = list(bound.arguments)[2 : 2 + len(args)]
    return named + [f"argument {i}" for i in range(len(named), len(args))]


def _refuse_reserved(name, signature):
    for parameter in list(signature.parameters)[2:]:
        if parameter in _RESERVED:
            raise UsageError(
                f"{name}{signature} has a parameter `{parameter}`,"
                " which launch() keeps for itself: rename it"
            )


def _more(args, kwargs):
    return "".join(
        [*(f", {value!r:.20}" for value in args), *(f", {key}=..." for key in kwargs)]
    )


class _Launch:
    """One launch in flight: processes, their pipes and files, what is known of them."""

    def __init__(self, fn, world_size, trace):
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.world_size, self.trace = world_size, trace
        self.ends, self.host = {}, None
        self.setup, self.body = _file(), _file()
        self.written, self.stacks, self.pipes = [], [], []
        self.events = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is KeyboardInterrupt and self.host:
                raise LaunchInterrupted(self._whereabouts("interrupted")) from None
        finally:
            self._stop()
            self.events.close()
            self.listener.close()
            for file in (
                self.setup,
                self.body,
                *self.written,
                *self.stacks,
                *self.pipes,
            ):
                file.close()

    def start(self):
        """Start all ranks, each on pipes and files of its own."""
        self.title = describe(self.world_size)
        self.screen = Screen(self.world_size, self.title)
        pickle.dump(_surroundings(), self.setup)
        self.setup.flush()
        self.body.flush()
        job = {
            "world_size": self.world_size,
            "port": self.listener.getsockname()[1],
            "trace": self.trace,
        }
        files = [self.listener.fileno(), self.setup.fileno(), self.body.fileno()]
        self.began = time.monotonic()
        self.host = _host(job, files)
        for file in self.host.wait_on():
            self.events.register(file, selectors.EVENT_READ, None)
        for rank in range(self.world_size):
            self._start_rank(rank)

    def _start_rank(self, rank):
        read, write = os.pipe()
        pipe, result, stack = open(read, "rb", buffering=0), _file(), _file()
        os.set_blocking(read, False)
        self.written.append(result)
        self.stacks.append(stack)
        self.pipes.append(pipe)
        self.events.register(pipe, selectors.EVENT_READ, rank)
        self.host.start_rank(rank, [write, result.fileno(), stack.fileno()])
        os.close(write)

    def follow(self, timeout):
        """Show output and watch until all ranks ended, one failed, or time is up."""
        while len(self.ends) < self.world_size and not self._failing():
            self._step(0.02)
            if timeout and time.monotonic() > self.began + timeout:
                raise LaunchTimeout(self._whereabouts(f"not done after {timeout:g} s"))
        if outcome.culprit(self._known()):
            self._fail()

    def _step(self, seconds):
        """Wait for output or news, take both in."""
        for key, _ in self.events.select(seconds):
            if key.data is not None:
                self._read(key.fileobj, key.data)
        for message in self.host.news():
            if "code" in message:
                end = outcome.End(message["rank"], message["code"], message["at"])
                self.ends[end.rank] = end
        self.screen.refresh()

    def _read(self, pipe, rank):
        data = pipe.read(1 << 16)
        if data:
            self.screen.feed(rank, data)
        elif data == b"":
            self.events.unregister(pipe)

    def _failing(self):
        """True once a rank failed and why is known, or will not be known better."""
        failed = [end for end in self.ends.values() if end.code != 0]
        if not failed:
            return False
        waited = time.monotonic() - min(end.at for end in failed)
        return outcome.settled(self._known()) or waited > _PATIENCE

    def _known(self):
        """The ends so far with the records that the ranks wrote."""
        for rank, end in self.ends.items():
            if not end.record:
                record = _load(self.written[rank])
                self.ends[rank] = outcome.End(rank, end.code, end.at, record)
        return list(self.ends.values())

    def _fail(self):
        where = self._ask_where()
        self._stop()
        self.screen.close("failed")
        raise outcome.explain(
            self._known(), where, name=self.name, world_size=self.world_size
        ) from None

    def _whereabouts(self, what):
        """Stop all ranks; a message that tells for each one where it was."""
        where = self._ask_where()
        self._stop()
        self.screen.close(what)
        lines = [f"{self.name} on {self.world_size} ranks: {what}", ""]
        for rank in range(self.world_size):
            there = (
                f"was in {whereabouts(where[rank])}" if rank in where else "had ended"
            )
            lines.append(f"rank {rank} {there}")
        return "\n".join(lines)

    def _ask_where(self):
        """The stack of every rank that still runs."""
        alive = [rank for rank in range(self.world_size) if rank not in self.ends]
        if alive:
            self.host.signal(signal.SIGUSR1)
        until, texts = time.monotonic() + _ANSWER, {}
        while time.monotonic() < until:
            self._step(0.01)
            last = texts
            texts = {
                rank: _text(self.stacks[rank])
                for rank in alive
                if rank not in self.ends
            }
            if texts == last and all(texts.values()):
                break  # a dump is complete when it no longer grows
        return {rank: stacks.main_stack(text) for rank, text in texts.items()}

    def results(self):
        """What the ranks returned."""
        records = [
            end.record for end in sorted(self._known(), key=lambda end: end.rank)
        ]
        self._stop()
        self.screen.close(f"{time.monotonic() - self.began:.2f} s")
        return Results(
            [record["value"] for record in records],
            output=[tape.text for tape in self.screen.tapes],
            seconds=[record["seconds"] for record in records],
            trace=self._merged(records),
            title=f"{self.title}, {self.screen.state}",
        )

    def _merged(self, records):
        if not self.trace:
            return None
        from course_lib import timeline

        events = {rank: record["events"] for rank, record in enumerate(records)}
        return timeline.merge(events, f"measured: {self.title}")

    def _stop(self):
        """End all processes of the launch, then take in what they still wrote."""
        if self.host:
            self.host.close()
            self.host = None
            for rank, pipe in enumerate(self.pipes):
                while data := pipe.read(1 << 16):
                    self.screen.feed(rank, data)


def describe(world_size: int) -> str:
    """Where the ranks of a launch run: `2 ranks on the CPU, one thread each`."""
    count = f"{world_size} rank{'s' if world_size > 1 else ''}"
    gpus = torch.cuda.device_count()
    if gpus >= world_size:
        return f"{count}, one GPU each"
    why = (
        f": {gpus} GPU{'s' if gpus > 1 else ''} cannot serve one per rank"
        if gpus
        else ""
    )
    return f"{count} on the CPU, one thread each{why}"


def _surroundings():
    """What of this process the ranks take on."""
    import linecache

    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = None
    # a lazy entry is one element long; those of cells hold their source
    sources = {
        name: entry
        for name, entry in linecache.cache.items()
        if len(entry) > 1 and entry[1] is None
    }
    return {
        "environ": dict(os.environ),
        "path": sys.path,
        "folder": folder,
        "sources": sources,
    }


def _host(job, files):
    if linux.available() and not os.environ.get("COURSE_LIB_PLAIN"):
        from course_lib.server import WarmHost

        return WarmHost(job, files)
    from course_lib.plain import PlainHost

    return PlainHost(job, files)


def _file():
    """An open file that has no name and is gone when nobody holds it."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("course_lib"), "w+b")
    return tempfile.TemporaryFile("w+b")


def _text(file):
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def _load(file):
    """The record that a rank wrote; empty if it did not come to that."""
    file.seek(0)
    try:
        return payload.load(file)
    except Exception:
        return {}
