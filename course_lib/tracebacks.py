"""How a notebook shows errors: by kind, and without the frames of libraries."""

import contextlib
import types
from collections.abc import Callable

from course_lib import stacks
from course_lib.display import shell
from course_lib.text import many

_WHOLE = "The whole traceback: %tb"


class _Errors:
    """Who shows which kind of error in IPython, which has room for one function."""

    def __init__(self):
        self.ours, self.theirs, self.installed = {}, {}, None
        self.all: tuple = ()  # kinds that are shown as usual, but for their frames

    def add(self, shell, kind, show):
        """Ask for a kind; whoever else was there before keeps all others."""
        self.ours[kind] = show
        self._install(shell)

    def add_all(self, shell):
        """Ask for all that nobody shows in another way."""
        self.all = Exception, KeyboardInterrupt
        self._install(shell)

    def _install(self, shell):
        if shell.CustomTB is not self.installed:
            self.theirs = dict.fromkeys(shell.custom_exceptions, shell.CustomTB)
        shell.set_custom_exc((*self.ours, *self.theirs, *self.all), self._show)
        self.installed = shell.CustomTB

    # IPython calls it in this way
    def _show(self, shell, kind, error, trace, tb_offset=None):
        with _folded(shell.InteractiveTB) if self.all else contextlib.nullcontext():
            for known, show_ours in self.ours.items():
                if issubclass(kind, known):
                    return show_ours(shell, kind, error, trace, tb_offset=tb_offset)
            for known, show_theirs in self.theirs.items():
                if issubclass(kind, known):
                    return show_theirs(kind, error, trace, tb_offset=tb_offset)
            return shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


@contextlib.contextmanager
def _folded(formatter):
    """Show tracebacks without the frames of libraries, for as long as the block lasts.

    `%tb` shows them later.
    """
    usual = formatter.structured_traceback

    def lines(kind, error, trace, *options, **more):
        chain = [error, *_before(error)]
        frames = [_frame(entry) for entry in _entries(trace)]
        if not any(map(stacks.is_learners, frames)) or not any(map(_folds, chain)):
            return usual(kind, error, trace, *options, **more)
        with _without_libraries(chain):
            text = usual(kind, error, error.__traceback__, 0)
        formatter.tb = trace  # where a debugger begins
        folded = filter(None, [_repeated(frames), stacks.show_folded(frames).strip()])
        return [*text, *folded, _WHOLE]

    formatter.structured_traceback = lines
    try:
        yield
    finally:
        del formatter.structured_traceback


def _repeated(frames):
    """Say how many lines of a function that calls itself are left out."""
    mine = [*filter(stacks.is_learners, frames)]
    again = len(mine) - len(set(mine))
    return f"({many(again, 'line')} shown above left out)" if again else ""


def _before(error):
    """Yield the exceptions that led to one, the latest first, each once."""
    known = [error]
    while True:
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
        if error is None or error in known:
            return
        known.append(error)
        yield error


@contextlib.contextmanager
def _without_libraries(errors):
    """Give exceptions the learner's frames alone, for a while."""
    traces = [error.__traceback__ for error in errors]
    try:
        for error, trace in zip(errors, traces):
            error.__traceback__ = _learners_part(trace)
        yield
    finally:
        for error, trace in zip(errors, traces):
            error.__traceback__ = trace


def _learners_part(trace):
    """Return the learner's entries of a traceback, of equal ones the last."""
    latest = {_frame(entry): entry for entry in _entries(trace)}
    part = None
    for entry in reversed([*_entries(trace)]):
        frame = _frame(entry)
        if stacks.is_learners(frame) and latest[frame] is entry:
            place = entry.tb_frame, entry.tb_lasti, entry.tb_lineno
            part = types.TracebackType(part, *place)
    return part


def _folds(error):
    """Return whether more than the learner's lines, once each, is in a traceback."""
    frames = [_frame(entry) for entry in _entries(error.__traceback__)]
    mine = [*map(stacks.is_learners, frames)]
    if True not in mine:
        return bool(frames)
    below = frames[mine.index(True) :]
    return len(set(below)) < len(below) or not all(map(stacks.is_learners, below))


def _entries(trace):
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _frame(entry):
    code = entry.tb_frame.f_code
    return stacks.Frame(code.co_filename, entry.tb_lineno, code.co_name)


_errors = _Errors()


def show_errors(kind: type[Exception], show: Callable) -> None:
    """Let `show(shell, kind, error, traceback, tb_offset=…)` show errors of a kind.

    In IPython alone. This is the only place that asks it for that: two that do would
    take it from each other.
    """
    if ipython := shell():
        _errors.add(ipython, kind, show)


def fold_libraries() -> None:
    """Show errors that nobody shows in another way without frames of libraries."""
    _errors.add_all(shell())
