"""What ranks print: live as they run, then in rank order, complete in the results."""

import codecs
import html
import re
import sys
import time
from collections import deque

from course_lib.colors import rank_color, text_color

_EVERY = 0.1  # seconds between two refreshes of the cell
_LIVE = 30  # lines in the cell while the ranks run
_KEPT = 60  # lines per rank in the cell afterwards
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Tape:
    """The output of one rank as a terminal would show it: `\\r` rewrites the line."""

    def __init__(self):
        self.lines, self.current, self._rewrite = [], "", False
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> list[str]:
        """Add output; the lines that it completes come back."""
        first = len(self.lines)
        for piece in re.split(r"(\r\n|\n|\r)", self._decode(data)):
            if piece in ("\n", "\r\n"):
                self.lines.append(self.current)
                self.current, self._rewrite = "", False
            elif piece == "\r":
                self._rewrite = True
            elif piece:
                self.current = (
                    self._over(piece) if self._rewrite else self.current + piece
                )
                self._rewrite = False
        return self.lines[first:]

    def _over(self, piece):
        # a bar that got shorter leaves the end of the longer one, as on a terminal
        return piece + self.current[len(piece) :]

    @property
    def text(self) -> str:
        """Everything that the rank wrote."""
        return "".join(f"{line}\n" for line in self.lines) + self.current


class Screen:
    """The output of all ranks, shown in the cell (or terminal) while it comes."""

    def __init__(self, world_size: int, title: str):
        self.tapes = [Tape() for _ in range(world_size)]
        self.title, self.state = title, ""
        self._recent = deque(maxlen=_LIVE)
        self._area = _open_area(self)
        self._shown, self._dirty, self._live = time.monotonic(), False, True

    def feed(self, rank: int, data: bytes) -> None:
        """Take what a rank wrote."""
        lines = self.tapes[rank].feed(data)
        if self._area is None:
            _print(rank, lines)
        self._recent.extend((rank, line) for line in lines)
        self._dirty = True

    def say(self, state: str) -> None:
        """Show what the launch is doing beside the title."""
        self.state, self._dirty = state, True
        self.refresh()

    def refresh(self) -> None:
        """Bring the cell up to date, a few times a second at most."""
        now = time.monotonic()
        if self._area and self._dirty and now - self._shown > _EVERY:
            self._area.update(self)
            self._shown, self._dirty = now, False

    def close(self, state: str) -> None:
        """Show the whole in rank order."""
        self._live, self.state = False, state
        if self._area:
            self._area.update(self)
        else:
            for rank, tape in enumerate(self.tapes):
                _print(rank, [tape.current] if tape.current else [])

    def _rows(self):
        """(rank, line) of what the cell shows now."""
        bars = [
            (rank, tape.current) for rank, tape in enumerate(self.tapes) if tape.current
        ]
        if self._live:
            return [*self._recent, *bars]
        return [
            row for rank, tape in enumerate(self.tapes) for row in _abridged(rank, tape)
        ]

    def _repr_html_(self):
        rows = "\n".join(
            f"{_chip(rank)} {html.escape(_plain(line))}" for rank, line in self._rows()
        )
        title = html.escape(f"{self.title}{self.state and ', ' + self.state}")
        head = f'<div style="opacity:.75;font-size:90%">{title}</div>'
        style = "margin:0;background:none;line-height:1.35;white-space:pre-wrap"
        return head + (f'<pre style="{style}">{rows}</pre>' if rows else "")

    def __repr__(self):
        rows = [f"[rank {rank}] {_plain(line)}" for rank, line in self._rows()]
        return "\n".join([f"{self.title}{self.state and ', ' + self.state}", *rows])


def _abridged(rank, tape):
    lines = tape.lines + ([tape.current] if tape.current else [])
    left = len(lines) - _KEPT
    if left > 0:
        half = _KEPT // 2
        note = f"... {left:,} more lines: results.output[{rank}] holds them all"
        lines = [*lines[:half], note, *lines[-half:]]
    return [(rank, line) for line in lines]


def _plain(line):
    return _ESCAPES.sub("", line)


def _chip(rank):
    color = rank_color(rank)
    style = (
        f"background:{color};color:{text_color(color)};padding:0 .5em;border-radius:3px"
    )
    return f'<span style="{style}">rank {rank}</span>'


def _print(rank, lines):
    prefix = f"[rank {rank}]"
    if sys.stdout.isatty():
        red, green, blue = (int(rank_color(rank)[i : i + 2], 16) for i in (1, 3, 5))
        prefix = f"\x1b[38;2;{red};{green};{blue}m{prefix}\x1b[0m"
    for line in lines:
        print(prefix, line, flush=True)


def _open_area(screen):
    """A place in the running cell that can be drawn again; None outside a notebook."""
    if not in_notebook():
        return None
    from IPython.display import display

    return display(Blank(screen.title), display_id=True)


class Blank:
    """The first picture of a cell's output area: the title alone."""

    def __init__(self, title: str):
        self.title = title

    def _repr_html_(self):
        return f'<div style="opacity:.75;font-size:90%">{html.escape(self.title)}</div>'

    def __repr__(self):
        return self.title


def in_notebook() -> bool:
    """True inside an IPython kernel (JupyterLab, VS Code, Colab, nbclient)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")
