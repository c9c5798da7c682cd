"""One rank: take on the notebook's surroundings, run the function, send the result."""

import atexit
import ctypes
import faulthandler
import functools
import gc
import importlib
import io
import itertools
import linecache
import mmap
import os
import pickle
import random
import signal
import sys
import time
import traceback
import types
from dataclasses import dataclass

inside = False  # True in the processes of a launch


@dataclass(frozen=True)
class Place:
    """Where a rank stands: its number among how many, store port, what to record."""

    rank: int
    world_size: int
    port: int
    trace: bool = False


def main(place: Place, files: tuple[int, int, int, int, int]) -> None:
    """Be rank `place.rank` in this fresh process, which ends here."""
    setup, body, output, result, stacks = files
    code = 1
    try:
        _stand_alone(output, stacks)
        code = _report(place, _open(setup), _open(body), result=os.fdopen(result, "wb"))
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _open(file):
    # a map has a position of its own, which ranks that share an open file do not
    return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def _stand_alone(output, stacks):
    """A session, output, stack dumps and exit handlers of this rank's own."""
    global inside
    inside = True
    if os.getpid() != os.getsid(0):
        os.setsid()
    if sys.platform == "linux":
        from course_lib import linux

        linux.die_with_parent()
        linux.write_by_line()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdin = open(0, closefd=False)
    sys.stdout = _text_stream(open(1, "wb", closefd=False), line_buffering=True)
    # nothing may wait in a buffer: a progress bar ends in a newline without a flush
    sys.stderr = _text_stream(
        open(2, "wb", buffering=0, closefd=False), write_through=True
    )
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    _forget_server()


def _text_stream(stream, **buffering):
    return io.TextIOWrapper(stream, "utf-8", "backslashreplace", **buffering)


def _forget_server():
    """Drop what is the server's own: exit handlers, its `__main__`, frozen garbage."""
    atexit._clear()
    util = sys.modules.get("multiprocessing.util")
    if util:
        atexit.register(util._exit_function)  # ends DataLoader workers
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.enable()


def _report(place, setup, body, *, result):
    """Run the function, write what became of it, return the exit code of this rank."""
    from course_lib import payload

    record = {"status": "starting", "events": None}
    code = 0
    try:
        _surround(place, pickle.load(setup))
        fn, args, kwargs = payload.load(body)
        record |= _call(place, fn, args=args, kwargs=kwargs)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        record |= _failure("exited", end) | {"exit": code}
    except BaseException as error:
        code = 1
        record |= _failure("raised", error)
    _flush()
    try:
        payload.dump(record, result)
    except Exception as error:
        result.seek(0)
        result.truncate()
        kind = type(record["value"]).__qualname__
        payload.dump({"status": "unsendable", "kind": kind, "text": str(error)}, result)
    result.close()
    return code


def _call(place, fn, *, args, kwargs):
    started = time.monotonic()
    if place.trace:
        from course_lib import recorder

        with recorder.record() as tape:
            value = fn(place.rank, place.world_size, *args, **kwargs)
        events = tape.events
    else:
        value, events = fn(place.rank, place.world_size, *args, **kwargs), None
    seconds = time.monotonic() - started
    return {"status": "returned", "value": value, "seconds": seconds, "events": events}


def _failure(status, error):
    at = time.monotonic()
    frames = traceback.extract_tb(error.__traceback__)
    places = [(frame.filename, frame.lineno, frame.name) for frame in frames]
    return {
        "status": status,
        "kind": type(error).__qualname__,
        "text": _text(error),
        "frames": [place for place in places if place[0] != __file__],
        "details": "".join(traceback.format_exception(error)),
        "at": at,
    }


def _text(error):
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


def _surround(place, setup):
    """Take on the notebook's environment, folder, paths, sources; then be this rank."""
    os.environ.clear()
    os.environ.update(setup["environ"])
    os.environ.update(
        RANK=str(place.rank),
        LOCAL_RANK=str(place.rank),
        WORLD_SIZE=str(place.world_size),
        LOCAL_WORLD_SIZE=str(place.world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(place.port),
        MPLBACKEND="agg",
    )
    loopback = "lo" if sys.platform == "linux" else "lo0"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    sys.path[:] = setup["path"]
    linecache.cache.update(setup["sources"])
    if setup["folder"]:
        os.chdir(setup["folder"])
    _scatter_seeds()
    _use_store(place.port)
    _keep_groups()


def _scatter_seeds():
    """Give this rank random numbers of its own, as a process of torchrun has."""
    import numpy
    import torch

    # forked ranks would share one state, which hides a forgotten seed or broadcast
    random.seed()
    numpy.random.seed()
    torch.seed()
    torch.set_num_threads(1)


def serve_store(port: int, listener: int):
    """The store where ranks find each other, on a socket that listens already."""
    from torch.distributed import TCPStore

    # no port race: the socket was bound before any rank was started
    return TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener,
    )


def _use_store(port):
    """Let each `init_process_group` here meet the other ranks in the launch's store."""
    from torch.distributed import PrefixStore, TCPStore

    # by name, because torch.distributed.rendezvous is a function of that module
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    turns = {}

    def create(hostname, asked_port, rank, world_size, timeout, *rest, **options):  # noqa: PLR0917
        # a prefix per turn: a second init in one process would read the first's keys
        turn = next(turns.setdefault(asked_port, itertools.count()))
        store = TCPStore("127.0.0.1", port, is_master=False, timeout=timeout)
        return PrefixStore(f"{asked_port}/{turn}", store)

    rendezvous._create_c10d_store = create


def _keep_groups():
    """Let a destroyed process group live on until this process ends.

    In torch 2.13 the last reference to a gloo group joins the group's thread while it
    holds the interpreter lock, and that thread may need the lock to drop a finished
    all-reduce: one DDP training in ten hung when its function returned. The question is
    open as pytorch#56297.
    """
    from torch.distributed import distributed_c10d as c10d

    destroy, kept = c10d.destroy_process_group, []

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        kept.extend(c10d._world.pg_map)
        destroy(group)

    for module in (c10d, sys.modules["torch.distributed"]):
        module.destroy_process_group = destroy_process_group


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    ctypes.CDLL(None).fflush(None)  # what C code printed
