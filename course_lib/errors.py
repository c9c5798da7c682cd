"""What went wrong, in one message: the rank, the line in the cell, the next step."""

import builtins
import linecache
import os
import signal
import site
import sys
import sysconfig
from typing import NamedTuple

_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


class _Shown:
    """Shown by a notebook as its message alone, without library frames."""

    def _render_traceback_(self):
        head, *rest = str(self).split("\n")
        return [f"{_RED}{type(self).__name__}{_PLAIN}: {_BOLD}{head}{_PLAIN}", *rest]


class CourseError(_Shown, Exception):
    """An error of the course; a notebook shows its message alone."""


class UsageError(CourseError, ValueError):
    """The call cannot work as it was written; nothing was started."""


class LaunchError(CourseError, RuntimeError):
    """A launch failed: `rank` is the first that did, `details` its whole traceback.

    `kind` is the name of the exception that it raised, else "exited", "killed", "left",
    "unsendable", "lost" (its connection), "late" or "stalled"; `where` has the stack of
    each rank that was still running.
    """

    last = None

    def __init__(self, message, *, rank=None, details="", kind="", where=None):
        super().__init__(message)
        LaunchError.last = self
        self.rank, self.details, self.kind = rank, details, kind
        self.where = where or {}


class LaunchTimeout(LaunchError, TimeoutError):
    """The ranks were not done in time; the message shows where each one was."""


class LaunchStalled(LaunchError):
    """All ranks wait for each other; the message shows where, and what to change."""


class LaunchInterrupted(_Shown, KeyboardInterrupt):
    """The cell was interrupted; the message shows where each rank was."""


def last_error() -> LaunchError:
    """The error of the last failed launch; its `details` are the whole traceback."""
    if LaunchError.last is None:
        raise UsageError("no launch has failed in this notebook")
    return LaunchError.last


_GROUP = getattr(builtins, "BaseExceptionGroup", ())  # since Python 3.11


def inner(error: BaseException) -> list[str]:
    """What belongs to an error beside its message: its notes, the errors of a group."""
    lines = [str(note) for note in getattr(error, "__notes__", ())]
    for part in error.exceptions if isinstance(error, _GROUP) else ():
        lines += [f"  {type(part).__qualname__}: {part}", *_indented(inner(part))]
    return lines


def _indented(lines):
    return [f"  {line}" for line in lines]


class Frame(NamedTuple):
    """One line of a stack: file, line number, function."""

    file: str
    line: int
    function: str


def _library_folders():
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names} | {os.path.dirname(__file__)}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    # a virtual environment's stdlib is that of the Python it was made from
    return tuple(os.path.join(folder, "") for folder in folders if folder)


_LIBRARIES = _library_folders()


def is_learners(frame: Frame) -> bool:
    """True for a line the learner wrote: a cell, a script, a module of their own."""
    return not frame.file.startswith((*_LIBRARIES, "<frozen", "<string>"))


def place(frame: Frame) -> str:
    """`cell In[3], line 4, in train`, or the file where there is no such cell."""
    return f"{_file_name(frame.file)}, line {frame.line}, in {frame.function}"


def _file_name(file):
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    named = shell.compile.format_code_name(file) if shell else None
    if named and named[0] == "Cell":
        return f"cell {named[1]}"
    nearby = os.path.relpath(file) if os.path.isabs(file) and _folder_exists() else file
    return file if nearby.startswith("..") else nearby


def _folder_exists():
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def source(frame: Frame, around: int = 1) -> list[str]:
    """The line of `frame` marked by an arrow, with `around` lines on either side."""
    linecache.checkcache(frame.file)  # a module may have been edited since
    numbers = range(max(1, frame.line - around), frame.line + around + 1)
    lines = [(number, linecache.getline(frame.file, number)) for number in numbers]
    return [
        f"  {'-->' if number == frame.line else '   '} {number:>3}  {text.rstrip()}"
        for number, text in lines
        if text.strip()
    ]


def show_stack(frames: list[Frame]) -> list[str]:
    """The learner's lines of a stack with source, outermost first, the rest folded."""
    own = [number for number, frame in enumerate(frames) if is_learners(frame)]
    # a function that calls itself stands there once
    shown = list(dict.fromkeys(frames[number] for number in own))[-3:]
    lines = []
    for frame in shown:
        times = sum(frames[number] == frame for number in own)
        again = f" ({times} times)" if times > 1 else ""
        lines += [f"  {place(frame)}{again}", *source(frame)]
    inner = frames[own[-1] + 1 :] if own else frames
    if inner:
        last = inner[-1]
        folded = (
            f"{len(inner)} more in libraries"
            if len(inner) > 1
            else "1 more in a library"
        )
        lines.append(
            f"  ({folded}, the last in {last.function},"
            f" {os.path.basename(last.file)}:{last.line})"
        )
    return lines


def whereabouts(frames: list[Frame]) -> str:
    """Where a running rank is, in one line: the learner's line and its source."""
    own = [frame for frame in frames if is_learners(frame)]
    if not frames:
        return "an unknown place: it did not answer"
    if not own:
        return f"{frames[-1].function}, outside your code"
    linecache.checkcache(own[-1].file)
    text = linecache.getline(own[-1].file, own[-1].line).strip()
    return f"{place(own[-1])}: {text}" if text else place(own[-1])


def ranks_named(ranks: list[int]) -> str:
    """`rank 3`, or `ranks 0, 2-5`."""
    runs = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs
    ]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(parts)


def signal_name(number: int) -> str:
    """`SIGSEGV`; `signal 35` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
