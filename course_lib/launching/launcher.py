"""Start ranks from a notebook cell, show what they print, collect what they return."""

import os
import pickle
import selectors
import socket
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from course_lib.errors import (
    LaunchInterrupted,
    LaunchStalled,
    LaunchTimeout,
    UsageError,
)
from course_lib.launching import failures, payload, rank_process, spec, surroundings
from course_lib.launching.console import Screen
from course_lib.launching.own_time import OwnTime
from course_lib.launching.protocol import Job, RankEnded, Record, Remark
from course_lib.launching.results import Results
from course_lib.launching.watchdog import explain, mismatch
from course_lib.launching.watchdog.probe import RankProbe, Watchdog
from course_lib.launching.watchdog.stall import running_stacks
from course_lib.system import host, linux, signals
from course_lib.text import many, sentences
from course_lib.tracing import meter

# seconds that a symptom waits for its cause, and a failure for ranks that start
_PATIENCE = 1.0
_DISTURBED = 0.2  # of its time without a core: other programs run, too
_LINES = 4  # of a rank's output that may say why it ended
_MOST = 6  # times its limit a launch may take on a busy machine


def launch(
    fn: Callable,
    /,
    *args,
    world_size: int | None = None,
    trace: bool | range = False,
    timeout: float | None = None,
    nodes: int | None = None,
    **kwargs,
) -> Results:
    """Run `fn(rank, world_size, *args, **kwargs)` in `world_size` fresh processes.

    `fn` may be defined in a cell. The default is one rank per GPU, and two without
    GPUs. Inside, `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and the rest are set as under
    torchrun, so `torch.distributed.init_process_group` needs nothing more. With
    `trace=True` the events of every rank are recorded, with `trace=range(3, 5)` those
    of training steps 3 and 4 (a step begins with the first forward after a backward).
    After `timeout` seconds all ranks are stopped. With `nodes=2` two agents of torchrun
    start the ranks, each as a node of its own with a host name of its own (Linux).

    `results[rank]` is what that rank returned (tensors arrive on the CPU, and of each
    DTensor the part of this rank, as plain data).

    Errors: `UsageError` if the call cannot work; `LaunchError` with rank and line when
    a rank fails; `LaunchStalled` a few seconds after all ranks began to wait for each
    other; `LaunchTimeout` and `LaunchInterrupted`. These three say where each rank was.
    """
    refuse_inside_rank()
    request = spec.check(
        fn,
        args=args,
        kwargs=kwargs,
        world_size=world_size,
        trace=trace,
        timeout=timeout,
        nodes=nodes,
    )
    return run_request(request)


def run_request(request: spec.Request, *, quiet: bool = False, tick=None) -> Results:
    """Start what was asked for; `quiet` shows nothing until a rank prints.

    `tick(seconds)` is called once a second.
    """
    with signals.at_most_one():
        launched = _Launch(request, quiet=quiet, tick=tick)
        try:
            launched.start()
            launched.follow()
            results = launched.results()
            launched.close()  # here, where an interrupt of it is answered
            return results
        except KeyboardInterrupt as interrupt:
            # its frames may hold the link of an agent that nobody else knows yet
            interrupt.__traceback__ = None
            raise LaunchInterrupted(**launched.interrupted()) from None
        finally:
            launched.close()


def refuse_inside_rank(call: str = "launch()") -> None:
    """Raise `UsageError` in a rank."""
    if rank_process.inside:
        raise UsageError(
            f"rank {os.environ.get('RANK')} called {call}: ranks cannot start ranks."
            f" Call {call} from the notebook, outside the function that it runs."
        )


class _Launch:
    """One launch in flight: processes, their pipes and files, what is known of them."""

    def __init__(self, request, *, quiet, tick):
        self.request, self.quiet, self.tick = request, quiet, tick
        self.name, self.world_size = request.name, request.world_size
        self.who = f"{self.name} on {many(self.world_size, 'rank')}"
        self.ends, self.places, self.agents = {}, {}, ()
        self.own_time = OwnTime()
        self.host: Any = None  # of the launch, from server.py
        self.setup, self.body = _file(), _file()
        self.written, self.pipes = [], []
        self.watchdog = Watchdog(lambda: self._step(0.01))
        self.events = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def start(self):
        """Start all ranks, each on pipes and files of its own."""
        payload.pack(self.request, file=self.body)
        pickle.dump(surroundings.of_this_process(), self.setup)
        self.setup.flush()
        trace, port = self.request.trace, self.listener.getsockname()[1]
        steps = [*trace] if isinstance(trace, range) else trace
        job = Job(self.world_size, port, steps, self.request.nodes)
        files = [self.listener.fileno(), self.setup.fileno(), self.body.fileno()]
        start_host = _host(self.request.nodes)
        self.how = start_host.how
        self.title = describe(self.world_size, self.request.nodes) + self.how
        # first, because an interrupt from here on is told on the screen
        how = {"quiet": self.quiet, "tick": self.tick}
        self.screen = Screen(self.world_size, self.title, **how)
        self.began = self.since = time.monotonic()
        self.host = start_host(job, files)
        if self.host.link:
            self.events.register(self.host.link, selectors.EVENT_READ, None)
        for rank in range(self.world_size):
            self._start_rank(rank)

    def _start_rank(self, rank):
        read, write = os.pipe()
        pipe, result = open(read, "rb", buffering=0), _file()
        probe = RankProbe(_file())
        os.set_blocking(read, False)
        self.written.append(result)
        self.watchdog.probes.append(probe)
        self.pipes.append(pipe)
        self.events.register(pipe, selectors.EVENT_READ, rank)
        self.host.start_rank(rank, [write, result.fileno(), *probe.files()])
        os.close(write)
        probe.given()

    def follow(self):
        """Show output and watch until all have ended, one failed, or time is up."""
        timeout = self.request.timeout
        while self._running():
            self._step(0.02)
            if states := self.watchdog.stall(set(self.ends)):
                parts = self._end("stood still, no rank can go on", states)
                raise LaunchStalled(**parts, kind="stalled") from None
            late = timeout and self._spent(timeout) > timeout
            # on a busy machine all may have ended in the step that found it late
            if late and self._running() and not self._failed():
                parts = self._end(f"not done after {timeout:g} s")
                raise LaunchTimeout(**parts, kind="late") from None
        if failures.culprit(self.ends.values()):
            self._fail()

    def _spent(self, timeout):
        """Seconds since the ranks began, of a check without those it lacked a core."""
        if self.request.nodes and len(self.places) < self.world_size:
            return 0.0  # the nodes have a limit of their own
        seconds = time.monotonic() - self.since
        if self.request.own_time and seconds < _MOST * timeout:
            return self.own_time.count(self.watchdog.pids.values(), seconds)
        return seconds

    def _running(self):
        """Return True until all ranks have ended, or one failed and it is known why."""
        return len(self.ends) < self.world_size and not self._failing()

    def _step(self, seconds):
        """Wait for output or news, take both in."""
        for key, _ in self.events.select(seconds):
            if key.data is not None:
                self._read(key.fileobj, key.data)
        for message in self.host.news():
            if isinstance(message, RankEnded):
                self._note_end(message)
            elif isinstance(message, Remark):
                self.how += message.text
                self.title = self.screen.title = self.title + message.text
            else:
                self.watchdog.pids[message.rank] = message.pid
                self.places[message.rank] = message.place
                self.since = time.monotonic()  # the time until now was the server's
        self.screen.refresh()

    def _read(self, pipe, rank):
        data = pipe.read(1 << 16)
        if data:
            self.screen.feed(rank, data)
        elif data == b"":
            self.events.unregister(pipe)

    def _note_end(self, end):
        file = self.written[end.rank]
        if end.code == 0 and os.fstat(file.fileno()).st_size > 0:
            record = Record("returned")  # the value is read when all have ended
        else:
            record = _load(file)
        place = self.places.get(end.rank, "")
        known = failures.RankExit(end.rank, end.code, end.at, record, place)
        self.ends[end.rank] = known

    def _failed(self):
        """How the ranks ended that have failed."""
        return [end for end in self.ends.values() if end.failed]

    def _failing(self):
        """Return True once a rank has failed and no more will be known of it."""
        failed = self._failed()
        if not failed:
            return False
        if time.monotonic() - min(end.at for end in failed) > _PATIENCE:
            return True
        explained = failures.settled(self.ends.values())
        return explained and self.watchdog.arrived(set(self.ends))

    def _fail(self):
        states = self.watchdog.states(set(self.ends), self.host)
        for rank, probe in enumerate(self.watchdog.probes):
            if probe.failed and rank not in self.ends:  # what it wrote is whole
                self._note_end(RankEnded(rank, 1, time.monotonic()))
        self._stop()
        self.screen.close("failed")
        ends = [self._with_output(end) for end in self.ends.values()]
        raise failures.explain(ends, states, name=self.name) from None

    def _with_output(self, end):
        rows = self.screen.texts[end.rank].rows[-_LINES:]
        return replace(end, printed="\n".join(rows))

    def interrupted(self):
        """Stop the ranks; return the parts of an error that tells where they were."""
        if self.host:
            return self._end("interrupted")
        when = "after they had ended" if self.pipes else "before they were started"
        return {"head": f"{self.who}: interrupted {when}"}

    def _end(self, what, states=None) -> dict[str, Any]:
        """Stop all ranks; the parts of an error that tells where each one was."""
        moved: bool | None = False  # what stands still was looked at for long
        if states is None:
            states, moved = self.watchdog.last_states(set(self.ends), self.host)
        self._stop()
        self.screen.close(what)
        return {
            "head": f"{self.who}: {what}",
            "what": what,
            "lines": explain.table(states),
            "notes": sentences(explain.reason(states, moved=moved)),
            "where": running_stacks(states),
        }

    def results(self):
        """Return what the ranks returned."""
        for rank, end in self.ends.items():
            self.ends[rank] = replace(end, record=_load(self.written[rank]))
        if failures.culprit(self.ends.values()):
            self._fail()  # what was written cannot be read
        records = [self.ends[rank].record for rank in range(self.world_size)]
        self._stop()
        used = [record.gpus for record in records]
        self.title = describe(self.world_size, self.request.nodes, used) + self.how
        self.screen.title = self.title
        disturbed = _disturbance(records)
        self.screen.close(f"{time.monotonic() - self.began:.2f} s{disturbed}")
        if sentence := mismatch.unlike_groups(self.watchdog.farewells()):
            warnings.warn(f"it went well by luck. {sentence}", stacklevel=4)
        return Results(
            [record.value for record in records],
            output=[text.whole for text in self.screen.texts],
            seconds=[record.seconds for record in records],
            trace=self._merged(records, disturbed),
            meter=_metered(records),
            title=f"{self.title}, {self.screen.state}",
            agents=self.agents,
        )

    def _merged(self, records, disturbed):
        if not self.request.trace:
            return None
        from course_lib.tracing.merge import merge_ranks

        events: dict[int | str, Any] = {
            rank: record.events for rank, record in enumerate(records)
        }
        return merge_ranks(events, f"measured: {self.title}{disturbed}")

    def close(self):
        """End all processes of the launch, and close its files; again does no harm."""
        self._stop()
        self.events.close()
        files = [self.listener, self.setup, self.body, self.watchdog]
        for file in (*files, *self.written, *self.pipes):
            file.close()

    def _stop(self):
        """End all processes of the launch, then take in what they still wrote."""
        if self.host:
            self.host.close()
            self.agents, self.host = self.host.agents, None
            for rank, pipe in enumerate(self.pipes):
                while data := pipe.read(1 << 16):
                    self.screen.feed(rank, data)


def _metered(records):
    """Return what the ranks sent; warn where one received it into another tensor."""
    result = meter.join_ranks([record.traffic for record in records])
    for sentence in result.unlike[:1]:
        warnings.warn(sentence, stacklevel=5)  # the line of the launch
    return result


def describe(world_size: int, nodes: int | None = None, used=None) -> str:
    """Say where the ranks of a launch run: `2 ranks on the CPU, one thread each`.

    `used` are the GPUs of each rank, which are known when all have ended. Before that
    nothing is said where there are GPUs: whether to use them is the function's choice.
    """
    count = many(world_size, "rank") + (f" of {many(nodes, 'node')}" if nodes else "")
    if used is None and torch.cuda.device_count():
        return count
    busy = [gpus for gpus in used or () if gpus]
    if not busy:
        threads = host.rank_threads()
        each = "one thread" if threads == 1 else many(threads, "thread")
        return f"{count} on the CPU, {each} each"
    gpus = len(set().union(*busy))
    where = "one GPU" if gpus == 1 else many(gpus, "GPU")
    if len(busy) < world_size:
        return f"{count}, {len(busy)} of them on {where}"
    own = gpus == world_size == sum(map(len, busy))
    return f"{count}, one GPU each" if own and gpus > 1 else f"{count} on {where}"


def _disturbance(records):
    """Return what a figure of this run should say: a rank lacked a core in vain."""
    if len(records) > host.usable_cores():
        return ""  # they share cores, as their number says already
    shares = [record.starved / record.seconds for record in records]
    rank = shares.index(max(shares))
    if shares[rank] < _DISTURBED or records[rank].starved < 0.02:
        return ""
    share = f"{100 * shares[rank]:.0f} %"
    return f"; disturbed: rank {rank} had no core for {share} of its time"


def _host(nodes):
    """Return what starts the ranks on this system."""
    if nodes:
        from course_lib.launching.client import NodesHost

        return NodesHost
    if linux.available() and not os.environ.get("COURSE_LIB_PLAIN"):
        from course_lib.launching.client import ForkedHost

        return ForkedHost
    from course_lib.launching.spawn import SpawnedHost

    return SpawnedHost


def _file():
    """Open a file that has no name and is gone when nobody holds it."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("course_lib"), "w+b")
    return tempfile.TemporaryFile("w+b")


def _load(file):
    """Return the record that a rank wrote; empty if it did not come to that."""
    if os.fstat(file.fileno()).st_size == 0:
        return Record()
    file.seek(0)
    try:
        return payload.load(file)
    except Exception as error:
        return Record("unsendable", kind="value", text=str(error))
