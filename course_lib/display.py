"""What a notebook or terminal shows: a line while something runs, a table."""

import contextlib
import html
import itertools
import re
import sys
import textwrap
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator

from course_lib import stacks
from course_lib.text import many

_EVERY = 0.2  # seconds between two changes
_SILENT = 2.0  # seconds without news, after which a cell says how long it runs
_WHOLE = "The whole traceback: %tb"


@contextlib.contextmanager
def progress_line(text: str = "") -> Iterator[Callable]:
    """Give a block `show(text, share)`: a line, and a bar for a share from 0 to 1.

    Afterwards nothing of it is there. Nothing is shown where nobody looks.
    """
    if in_notebook() and not _moved():
        with _in_cell() as write:
            yield _paced(write, text)
    elif not in_notebook() and sys.stderr is not None and sys.stderr.isatty():
        try:
            yield _paced(_in_terminal, text)
        finally:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    else:
        yield lambda text, share=None: None


def _moved():
    """Return whether a slider calls: what is shown there cannot be taken away."""
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent("shell") if kernel else {}
    return parent.get("header", {}).get("msg_type") == "comm_msg"


def _paced(write, text):
    """`write`, but not more often than an eye can follow."""
    last = 0.0

    def show(text, share=None):
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            write(text, share)
            last = time.monotonic()

    if text:
        write(text, None)
    return show


@contextlib.contextmanager
def _in_cell():
    from IPython.display import display, update_display

    place = uuid.uuid4().hex  # known before, since an interrupt may come at any time
    visible = False

    def write(text, share=None):
        nonlocal visible
        put, visible = (update_display if visible else display), True
        # an output without data is drawn as nothing
        data = _bundle(text, share) if text else {}
        put(data, raw=True, display_id=place)

    try:
        yield write
    finally:
        if visible:
            write("")


def _bundle(text, share):
    bar = "" if share is None else f'<progress value="{share:.3f}"></progress> '
    style = "opacity:.75;font-size:90%"
    words = f'<span style="{style}">{bar}{html.escape(text)}</span>'
    return {"text/plain": text, "text/html": words}


def _in_terminal(text, share):
    done = "" if share is None else f"{share:4.0%} "
    print(f"\r\x1b[K{done}{text[:90]}", end="", file=sys.stderr, flush=True)


class CellClock:
    """A line that says how long a cell runs, as long as the cell shows nothing else."""

    def __init__(self):
        self._depth = 0  # a cell may run another one
        self._began = self._news = 0.0
        self._over = threading.Event()

    def install(self, shell):
        """Run with each cell of a notebook from the next one on."""
        shell.display_pub.register_hook(self.note)
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def note(self, message):
        """Take note of what a cell shows; it comes back, as the publisher wants it."""
        self._news = time.monotonic()
        return message

    def begin(self, _=None):
        """Start the clock: a cell begins."""
        self._depth += 1
        if self._depth > 1:
            return
        self._began = self._news = time.monotonic()
        self._over.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self, _=None):
        """Take the line away: a cell ends, maybe the one that installed this clock."""
        if not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            self._over.set()
            self._thread.join()

    def _watch(self):
        with _in_cell() as write:
            shown = ""
            while not self._over.wait(1.0):
                text = self.text(time.monotonic())
                if text or shown:  # other news have come: they have their own clock
                    write(text)
                shown = text

    def text(self, now: float) -> str:
        """Return what is to be said at this time, nothing if there were news."""
        silent = now - self._news >= _SILENT
        return f"this cell runs, {int(now - self._began)} s …" if silent else ""


def after_cell(show: Callable) -> None:
    """Call `show()` at the end of a notebook's cell: below its result or its error."""
    events = _shell().events

    def once():
        events.unregister("post_execute", once)
        show()

    events.register("post_execute", once)


class Html(str):
    """Text that is HTML already."""


def prose(text: str) -> Html:
    """Return sentences as HTML: names between backticks look like code."""
    return Html(re.sub("`(.+?)`", r"<code>\1</code>", html.escape(text)))


_CHIPS = {"✓": "#007a5a", "✗": "#b03a00", "○": "#666666"}


def colored(mark: str) -> Html:
    """Return the mark of an outcome, white on its colour: 4.5 to 1 in every theme."""
    style = f"background:{_CHIPS[mark]};color:#fff;border-radius:3px;padding:0 .4em"
    return Html(f'<b style="{style}">{mark}</b>')


def html_table(heads, rows, *, caption="", style="text-align:left") -> str:
    """Write a table for a notebook: `rows` of values under `heads`, in one style.

    Values are escaped, unless they are `Html`.
    """
    title = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    head = _html_row("th", heads, style)
    body = "".join(_html_row("td", row, style) for row in rows)
    return f"<table>{title}<thead>{head}</thead><tbody>{body}</tbody></table>"


def number_table(heads, rows, *, caption) -> str:
    """Write a table of numbers, which stand to the right; a name begins each row."""
    rows = [(Html(f"<b>{_escaped(name)}</b>"), *numbers) for name, *numbers in rows]
    return html_table(("", *heads), rows, caption=caption, style="")


def _html_row(tag, values, style):
    start = f'<{tag} style="{style}">' if style else f"<{tag}>"
    return f"<tr>{''.join(f'{start}{_escaped(v)}</{tag}>' for v in values)}</tr>"


def _escaped(value):
    return value if isinstance(value, Html) else html.escape(str(value))


def text_table(heads, rows, widths) -> str:
    """Write a table for a terminal: columns of at most `widths`, two blanks apart.

    A longer cell goes on in the next line.
    """
    rows = [tuple(map(str, row)) for row in rows]
    longest = map(max, *(map(len, row) for row in (heads, *rows)))
    widths = list(map(min, widths, longest))
    head, *body = (_wrapped(row, widths) for row in (heads, *rows))
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([head, rule, *body])


def _wrapped(row, widths):
    columns = (
        textwrap.wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(row, widths)
    )
    lines = itertools.zip_longest(*columns, fillvalue="")
    padded = ("  ".join(map(str.ljust, line, widths)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


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
    shell = _shell()
    if shell is not None:
        _errors.add(shell, kind, show)


def _shell():
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_notebook() -> bool:
    """Return whether this is an IPython kernel (JupyterLab, VS Code, Colab …)."""
    return hasattr(_shell(), "kernel")


def follow_cells() -> None:
    """Show in each cell how long it runs, and errors without frames of libraries."""
    _errors.add_all(_shell())
    CellClock().install(_shell())


if in_notebook():
    follow_cells()
