"""What the doctor found, as plain rows and as a table for terminals and notebooks."""

from __future__ import annotations

import html
import itertools
import textwrap
from dataclasses import dataclass

NECESSARY = ("Python", "torch", "gloo", "JupyterLab")
_HEAD = ("", "found", "what it costs", "how to get it")
_WIDTHS = (10, 22, 30, 32)  # with two blanks between columns: 100
# grey lines and inherited ink suit JupyterLab's light and dark theme
_CELL = (
    "text-align:left;vertical-align:top;padding:4px 16px 4px 0;background:none;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.4);white-space:normal"
)


@dataclass(frozen=True)
class Row:
    """One thing: what was found ("" if nothing), what the lack costs, the way to it."""

    name: str
    found: str
    cost: str = ""
    remedy: str = ""


class Table:
    """The rows of the doctor: text in a terminal, a table in a notebook."""

    def __init__(self, rows):
        self.rows = list(rows)

    @property
    def lacking(self) -> list[str]:
        """The names of necessary things that are missing."""
        return [r.name for r in self.rows if r.name in NECESSARY and not r.found]

    def summary(self) -> str:
        """One sentence: can the course run here?"""
        if not self.lacking:
            return "Everything necessary is here."
        return f"Necessary and missing: {', '.join(self.lacking)}."

    def text(self, color: bool = False) -> str:
        """The table in at most 100 columns; the word "missing" is bold if `color`."""
        rows = [(r.name, r.found or "missing", r.cost, r.remedy) for r in self.rows]
        longest = map(max, *(map(len, row) for row in (_HEAD, *rows)))
        widths = list(map(min, _WIDTHS, longest))
        head, *body = (_wrapped(row, widths) for row in (_HEAD, *rows))
        if color:
            body = [
                text.replace("missing", "\x1b[1mmissing\x1b[0m", 1) for text in body
            ]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        return "\n".join([head, rule, *body, "", self.summary()])

    def __str__(self):
        return self.text()

    def __repr__(self):
        missing = sum(not row.found for row in self.rows)
        return f"Table of {len(self.rows)} things, {missing} missing"

    def _repr_html_(self):
        head = "".join(f'<th style="{_CELL}">{html.escape(x)}</th>' for x in _HEAD)
        return (
            f"<p><b>{html.escape(self.summary())}</b></p>"
            '<table style="border-collapse:collapse;margin:0;font-size:inherit">'
            f"<thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(map(_html_row, self.rows))}</tbody></table>"
        )


def _html_row(row):
    missing = "not here"
    if row.name in NECESSARY:
        missing = '<b style="color:#d55e00">missing</b>'  # vermilion of Okabe and Ito
    cells = (
        f"<b>{html.escape(row.name)}</b>",
        html.escape(row.found) or missing,
        html.escape(row.cost),
        html.escape(row.remedy),
    )
    body = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr style="background:none">{body}</tr>'


def _wrapped(cells, widths):
    columns = map(_fold, cells, widths)
    lines = itertools.zip_longest(*columns, fillvalue="")
    padded = ("  ".join(map(str.ljust, line, widths)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def _fold(cell, width):
    return textwrap.wrap(cell, width, break_on_hyphens=False)
