"""What ranks print: live as they run, then in rank order, complete in the results."""

import codecs
import html
import re
import sys
import time
from collections import defaultdict, deque

from course_lib.colors import rank_color, text_color
from course_lib.display import in_notebook
from course_lib.text import ranks_named

_EVERY = 0.1  # seconds between two refreshes of the cell
_LIVE = 30  # lines in the cell while the ranks run
_KEPT = 60  # lines per rank in the cell afterwards
_WIDEST = 2000  # characters of a line in the cell
_MOVES = re.compile(r"(\r\n|\n|\r|\x1b\[A)")
_WARNING = re.compile(r"\S+:\d+: \w*Warning: ")  # as Python prints one
_SHARED = "#6b6b6b"  # of what several ranks wrote alike
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class TerminalText:
    """The output of one rank as a terminal would show it.

    `\\r` goes back to the start of the row, and `\\x1b[A`, which nested progress bars
    use, up one row; what is written there replaces what stood there.
    """

    def __init__(self):
        self._rows = [""]
        self._row = 0
        self._over = False
        self._pieces = []
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> list[int]:
        """Add output; the numbers of the rows that it completes come back."""
        first = len(self._rows) - 1
        for piece in _MOVES.split(self._decode(data)):
            if piece in ("\n", "\r\n"):
                self._go(1)
            elif piece == "\x1b[A":
                self._go(-1)
            elif piece == "\r":
                self._settle()
                self._over = True
            elif piece:
                self._pieces.append(piece)
        return list(range(first, len(self._rows) - 1))

    def _go(self, step):
        self._settle()
        self._row = max(0, self._row + step)
        if self._row == len(self._rows):
            self._rows.append("")
        self._over = True

    def _settle(self):
        """Write what has come since the last move: over the row, or at its end."""
        if self._pieces:
            new, old = "".join(self._pieces), self._rows[self._row]
            # a bar that got shorter leaves the end of the longer one, as on a terminal
            self._rows[self._row] = new + old[len(new) :] if self._over else old + new
            self._pieces, self._over = [], False

    @property
    def rows(self) -> list[str]:
        """The rows so far; the last one is empty after a newline."""
        self._settle()
        return self._rows

    @property
    def whole(self) -> str:
        """Everything that the rank wrote."""
        return "\n".join(self.rows)


class Screen:
    """The output of all ranks, shown in the cell (or on the terminal) as it comes.

    Above it stands for how long they run. A quiet screen opens with the first output;
    `tick` is told the seconds meanwhile.
    """

    def __init__(self, world_size: int, title: str, *, quiet: bool = False, tick=None):
        self.texts = [TerminalText() for _ in range(world_size)]
        self.title, self.state = title, ""
        self._recent = deque(maxlen=_LIVE)
        self._dirty, self._live = False, True
        self._began = time.monotonic()
        self._next = self._began + _EVERY
        self._seconds, self._tick = 0, tick
        # last, because it draws this screen
        self._area = None if quiet else _open_area(self)
        self._quiet = self._brief = quiet

    def feed(self, rank: int, data: bytes) -> None:
        """Take what a rank wrote."""
        numbers = self.texts[rank].feed(data)
        if self._quiet:
            self._area, self._quiet = _open_area(self), False
        if self._area is None:
            _print(rank, [self.texts[rank].rows[number] for number in numbers])
        self._recent.extend((rank, number) for number in numbers)
        self._dirty = True

    def refresh(self) -> None:
        """Bring the cell up to date, a few times a second at most.

        It takes a tenth of the time at most: of a row of many MB each look is a copy.
        """
        now = time.monotonic()
        self._count(int(now - self._began))
        if self._area and self._dirty and now > self._next:
            self._area.update(self)
            took = time.monotonic() - now
            self._next, self._dirty = now + max(_EVERY, 10 * took), False

    def _count(self, seconds):
        """Move the clock on, once a second."""
        if seconds > self._seconds:
            self._seconds, self._dirty = seconds, True
            self.state = f"{seconds} s …"
            if self._tick:
                self._tick(seconds)

    def close(self, state: str) -> None:
        """Show the whole in rank order."""
        self._live, self.state = False, state
        if self._area:
            self._area.update(self)
        else:
            for rank, text in enumerate(self.texts):
                _print(rank, filter(None, text.rows[-1:]))

    def _rows(self):
        """(ranks, row) of what the cell shows now."""
        if self._live:
            rows = [((rank,), self.texts[rank].rows[n]) for rank, n in self._recent]
            bars = [((rank,), text.rows[-1]) for rank, text in enumerate(self.texts)]
            return rows + [(rank, bar) for rank, bar in bars if bar]
        # what runs quietly has no results to look into
        places = [
            "" if self._brief else f": results.output[{rank}] holds them all"
            for rank in range(len(self.texts))
        ]
        shared, own = _told_once([*map(_abridged, self.texts, places)])
        return shared + [
            ((rank,), row) for rank, rows in enumerate(own) for row in rows
        ]

    def _repr_html_(self):
        rows = "\n".join(
            f"{_chip(ranks)} {html.escape(_visible(line))}"
            for ranks, line in self._rows()
        )
        title = html.escape(f"{self.title}{self.state and ', ' + self.state}")
        head = f'<div style="opacity:.75;font-size:90%">{title}</div>'
        style = (
            "margin:0;background:none;line-height:1.35;white-space:pre-wrap;"
            "word-break:normal;overflow-wrap:anywhere"
        )
        return head + (f'<pre style="{style}">{rows}</pre>' if rows else "")

    def __repr__(self):
        rows = [
            f"[{ranks_named(ranks)}] {_visible(line)}" for ranks, line in self._rows()
        ]
        return "\n".join([f"{self.title}{self.state and ', ' + self.state}", *rows])


def _abridged(text, place):
    """The rows, without the middle of very many; `place` says where that is."""
    rows = text.rows if text.rows[-1] else text.rows[:-1]
    left = len(rows) - _KEPT
    if left > 0:
        half = _KEPT // 2
        rows = [*rows[:half], f"... {left:,} more lines{place}", *rows[-half:]]
    return rows


def _told_once(texts):
    """Take warnings that several ranks wrote alike out of their rows: (ranks, row)."""
    ranks = defaultdict(dict)  # an ordered set
    blocks = [_blocks(rows) for rows in texts]
    for rank, found in enumerate(blocks):
        for block in filter(_warns, found):
            ranks[block][rank] = None
    shared = {block: [*who] for block, who in ranks.items() if len(who) > 1}
    own = [
        [row for block in found if block not in shared for row in block]
        for found in blocks
    ]
    return [(who, row) for block, who in shared.items() for row in block], own


def _blocks(rows):
    """Return the rows, each warning of Python's with its line of source."""
    blocks: list[tuple[str, ...]] = []
    for row in rows:
        if row.startswith("  ") and blocks and _warns(blocks[-1]):
            blocks[-1] += (row,)
        else:
            blocks.append((row,))
    return blocks


def _warns(block):
    return _WARNING.match(block[0]) and len(block) < 3


def _visible(row):
    """Return the row without colours, cut where no screen could show it."""
    cut = len(row) - _WIDEST
    row = row if cut <= 0 else f"{row[:_WIDEST]} ... {cut:,} more characters"
    return _ESCAPES.sub("", row)


def _chip(ranks):
    color = rank_color(ranks[0]) if len(ranks) == 1 else _SHARED
    style = (
        f"background:{color};color:{text_color(color)};padding:0 .5em;border-radius:3px"
    )
    return f'<span style="{style}">{ranks_named(ranks)}</span>'


def _print(rank, lines):
    prefix = f"[rank {rank}]"
    if sys.stdout.isatty():
        red, green, blue = (int(rank_color(rank)[i : i + 2], 16) for i in (1, 3, 5))
        prefix = f"\x1b[38;2;{red};{green};{blue}m{prefix}\x1b[0m"
    for line in lines:
        print(prefix, line, flush=True)


def _open_area(screen):
    """Open a place in the cell that can be drawn again; None outside a notebook."""
    if not in_notebook():
        return None
    from IPython.display import display

    return display(screen, display_id=True)
