"""What a notebook or terminal shows: a line while something runs, a table."""

import contextlib
import html
import itertools
import re
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator

_EVERY = 0.2  # seconds between two changes


@contextlib.contextmanager
def progress_line(text: str = "") -> Iterator[Callable]:
    """Give a block `show(text, share)`: a line, and a bar for a share from 0 to 1.

    Afterwards nothing of it is there. Nothing is shown where nobody looks.
    """
    if in_notebook() and not _moved():
        with line_in_cell() as write:
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
def line_in_cell(publisher=None) -> Iterator[Callable]:
    """Give a block `write(text, share)`, a line of its own; afterwards it is gone.

    A `publisher` of IPython's shows it past what captures the output of a cell.
    """
    from IPython.display import display, update_display

    place = uuid.uuid4().hex  # known before, since an interrupt may come at any time
    visible = False

    def write(text, share=None):
        nonlocal visible
        again, visible = visible, True
        # an output without data is drawn as nothing
        data = _bundle(text, share) if text else {}
        if publisher:
            where = {"display_id": place}
            publisher.publish(data, {}, transient=where, update=again)
        else:
            (update_display if again else display)(data, raw=True, display_id=place)

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


def shell():
    """Return IPython's shell, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_notebook() -> bool:
    """Return whether this is an IPython kernel (JupyterLab, VS Code, Colab …)."""
    return hasattr(shell(), "kernel")
