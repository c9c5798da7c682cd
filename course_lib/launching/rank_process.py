"""One rank: take on the notebook's surroundings, run the function, send the result."""

import atexit
import builtins
import contextlib
import faulthandler
import gc
import io
import mmap
import os
import pickle
import signal
import sys
import textwrap
import threading
import time
import traceback
import types
import weakref
from importlib.machinery import ModuleSpec

from course_lib.launching import ddp, sharding, surroundings
from course_lib.launching.protocol import Cause, Place, Record
from course_lib.launching.watchdog import responder
from course_lib.stacks import Frame
from course_lib.system import linux, processes

_LONGEST = 4000  # characters of an error's message

inside = False  # True in the processes of a launch
_forgotten = []


def main(place: Place, files: tuple[int, ...]) -> None:
    """Be rank `place.rank` in this fresh process, which ends here."""
    setup, body, output, result, stacks, questions = files
    code = 1
    try:
        _stand_alone(output, stacks)
        responder.be_asked(questions)
        code = _report(place, _open(setup), _open(body), result=os.fdopen(result, "wb"))
        threading._shutdown()  # waits for the learner's threads, as Python does
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code & 0xFF)


def _open(file):
    """Return a reader with a position of its own: ranks share that of an open file."""
    try:
        # PyTorch reads from a file into its tensors; from a map it copies all once more
        return open(f"/proc/{os.getpid()}/fd/{file}", "rb")
    except OSError:
        return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def _stand_alone(output, stacks):
    """Take a session, output, stack dumps and exit handlers of this rank's own."""
    global inside
    inside = True
    if os.getpid() != os.getsid(0):
        os.setsid()
    if sys.platform == "linux":
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
    faulthandler.enable(stacks)  # a crash in compiled code has a line, too
    _forget_server()


def _text_stream(stream, **buffering):
    return io.TextIOWrapper(stream, "utf-8", "backslashreplace", **buffering)


def _forget_server():
    """Drop what is the server's own: exit handlers, its `__main__`, frozen garbage."""
    atexit._clear()
    util = sys.modules.get("multiprocessing.util")
    if util:
        atexit.register(util._exit_function)  # ends DataLoader workers
    forget_finalizers()
    atexit.register(weakref.finalize._exitfunc)  # removes temporary folders
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__spec__ = ModuleSpec("course_lib.launching.mp_main", None)
    gc.enable()


def forget_finalizers() -> None:
    """Drop the `weakref.finalize` of the process that forked this one."""
    # torch has hundreds, slow to run; to free them would copy the pages they are in
    _forgotten.append(weakref.finalize._registry)
    weakref.finalize._registry = {}


def _report(place, setup, body, *, result):
    """Run the function, write what became of it, return the exit code of this rank."""
    from course_lib.launching import payload

    code = 0
    try:
        with setup, body:  # a rank that asks for all warnings is told of open files
            found = pickle.load(setup)
            surroundings.take_on(place, found)
            # for processes that start afresh; without /proc they cannot have it
            os.environ["COURSE_LIB_CALL"] = getattr(body, "name", "")
            os.environ["COURSE_LIB_SETUP"] = getattr(setup, "name", "")
            fn, args, kwargs = _unpack(body, found.devices)
        record = _call(place, fn, args=args, kwargs=kwargs)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # as Python does
        record = _failure("exited", end)._replace(exit=code)
        code = code or 1  # to leave early is a failure, to be seen at once
    except BaseException as error:
        code = 1
        record = _failure("raised", error)
    _flush()
    try:
        payload.dump(record, result)
    except Exception as error:
        result.seek(0)
        result.truncate()
        kind = type(record.value).__qualname__
        payload.dump(Record("unsendable", kind=kind, text=str(error)), result)
        code = 1
    result.close()
    responder.farewell()
    if code:
        responder.tell(responder.FAILED)
    return code


def _unpack(body, devices):
    """Return what to call; a function that names virtual GPUs finds them here."""
    from course_lib.launching import payload

    try:
        return payload.load(body)
    except RuntimeError as error:
        if not devices or "vgpu" not in str(error):
            raise
    from course_lib.accelerators import selection

    selection.devices(quiet=True, **devices)
    body.seek(0)
    return payload.load(body)


def _call(place, fn, *, args, kwargs):
    from course_lib.tracing.messages import rank_log

    started, born = time.monotonic(), os.getpid()
    starved = processes.starved(born)
    with rank_log.kept(), _recording(place, rank_log) as recording:
        responder.tell(responder.BEGUN)
        try:
            value = fn(place.rank, place.job.world_size, *args, **kwargs)
        except BaseException:
            responder.tell(responder.RAISED)  # to write how takes a moment
            raise
        rank_log.look()  # before another rank ends, which closes connections
        responder.tell(responder.LEFT)
    if os.getpid() != born:
        _flush()
        os._exit(0)  # a process that the function forked has returned from it, too
    return Record(
        "returned",
        value,
        seconds=time.monotonic() - started,
        starved=processes.starved(born) - starved,
        traffic=rank_log.traffic(),
        events=recording.events if recording else None,
        gpus=used_gpus(),
    )


def used_gpus() -> list[str]:
    """Return the GPUs on which this process had tensors, named alike on all ranks."""
    from torch import cuda

    if not cuda.is_initialized():
        return []
    # that is not enough: the end of a recording starts CUDA itself
    numbers = filter(cuda.max_memory_reserved, range(cuda.device_count()))
    return [str(cuda.get_device_properties(number).uuid) for number in numbers]


def _recording(place, log):
    trace = place.job.trace
    if not trace:
        return contextlib.nullcontext()
    from torch import cuda

    from course_lib.tracing import rank_recording

    steps = None if trace is True else trace
    # a fresh rank has not used a GPU yet, but may
    return rank_recording.record(log, cuda=cuda.device_count() > 0, steps=steps)


def _failure(status, error):
    at = time.monotonic()
    stack = traceback.extract_tb(error.__traceback__)
    frames = (Frame(one.filename, one.lineno or 0, one.name) for one in stack)
    return Record(
        status,
        kind=type(error).__qualname__,
        text=_text(error),
        chain=tuple(Cause(type(e).__qualname__, _text(e)) for e in _chain(error)),
        frames=tuple(frame for frame in frames if frame.file != __file__),
        details="".join(traceback.format_exception(error)),
        virtual=_virtual_gpus(),
        at=at,
        hints=(*ddp.hints(error, _text(error)), *sharding.hints(error, _text(error))),
    )


def _virtual_gpus():
    """How many virtual GPUs this rank has made."""
    module = sys.modules.get("course_lib.accelerators.virtual")
    return module.machine.count if module else 0


def _chain(error):
    """Return the exception, and those that it was raised from or after."""
    chain = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _text(error):
    """Return the message, cut at what a cell can show; `details` hold the whole."""
    try:
        text = "\n".join([str(error) or "(no message)", *_inner(error)])
    except Exception:
        return "(its message cannot be shown)"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the learner may put anything there
            stream.flush()
    linux.libc().fflush(None)  # what C code printed


_GROUP = getattr(builtins, "BaseExceptionGroup", ())  # since Python 3.11


def _inner(error: BaseException) -> list[str]:
    """Return what an error has beside its message: notes, the errors of a group."""
    lines = [str(note) for note in getattr(error, "__notes__", ())]
    for part in error.exceptions if isinstance(error, _GROUP) else ():
        inner = "\n".join([f"{type(part).__qualname__}: {part}", *_inner(part)])
        lines.append(textwrap.indent(inner, "  "))
    return lines
