"""The table of the doctor: one row for each thing that was looked for."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from course_lib.display import Html, html_table, text_table

# grey lines and inherited ink suit JupyterLab's light and dark theme
_CELL = (
    "text-align:left;vertical-align:top;padding:4px 16px 4px 0;background:none;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.4);white-space:normal"
)
NECESSARY = ("Python", "torch", "gloo", "JupyterLab")
_HEADS = ("", "found", "what it costs", "how to get it")
_WIDTHS = (10, 22, 30, 32)  # characters; with two blanks between columns: 100


@dataclass(frozen=True)
class Finding:
    """One thing: what was found ("" if nothing), what the lack costs, the way to it."""

    name: str
    found: str
    cost: str = ""
    remedy: str = ""


class Checkup:
    """What the doctor found: text in a terminal, a table in a notebook."""

    def __init__(self, findings):
        self.findings = list(findings)

    @property
    def lacking(self) -> list[str]:
        """Return the names of necessary things that are missing."""
        return [f.name for f in self.findings if f.name in NECESSARY and not f.found]

    def summary(self) -> str:
        """Say in one sentence whether the course can run here."""
        if not self.lacking:
            return "Everything necessary is here."
        return f"Necessary and missing: {', '.join(self.lacking)}."

    def text(self, color: bool = False) -> str:
        """Write the table in at most 100 columns; "missing" is bold if `color`."""
        rows = [(f.name, f.found or "missing", f.cost, f.remedy) for f in self.findings]
        table = text_table(_HEADS, rows, _WIDTHS)
        if color:
            table = re.sub(r"(?m)^(\S+ +)missing\b", "\\1\x1b[1mmissing\x1b[0m", table)
        return f"{table}\n\n{self.summary()}"

    def __str__(self):
        return self.text()

    def __repr__(self):
        missing = sum(not finding.found for finding in self.findings)
        return f"Checkup of {len(self.findings)} things, {missing} missing"

    def _repr_html_(self):
        table = html_table(_HEADS, map(_cells, self.findings), style=_CELL)
        return f"<p><b>{html.escape(self.summary())}</b></p>{table}"


def _cells(finding):
    missing = "not here"
    if finding.name in NECESSARY:  # in vermilion of Okabe and Ito
        missing = Html('<b style="color:#d55e00">missing</b>')
    name = Html(f"<b>{html.escape(finding.name)}</b>")
    return name, finding.found or missing, finding.cost, finding.remedy
