"""What a launch gives back: one value per rank, its output, its trace."""

import html
from collections.abc import Sequence

from course_lib.text import short


class Results(Sequence):
    """What each rank returned: `results[rank]`; also `output`, `seconds` and `trace`.

    `output[rank]` is the text that the rank wrote, `seconds[rank]` how long its
    function ran, `trace` the recorded events (None without `trace=True`).
    """

    def __init__(self, values, *, output, seconds, trace=None, title=""):
        self._values, self.title = list(values), title
        self.output, self.seconds, self.trace = output, seconds, trace

    def __getitem__(self, rank):
        return self._values[rank]

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return f"Results of {self.title}: [{', '.join(map(short, self))}]"

    def _repr_html_(self):
        rows = [_row("th", ("rank", "returned", "seconds", "lines of output"))]
        for rank, value in enumerate(self):
            seconds, lines = f"{self.seconds[rank]:.3f}", self.output[rank].count("\n")
            rows.append(_row("td", (rank, short(value), seconds, lines)))
        return f"<table>{''.join(rows)}</table>"


def _row(tag, row):
    start, end = f'<{tag} style="text-align:left">', f"</{tag}>"
    cells = (start + html.escape(str(cell)) + end for cell in row)
    return f"<tr>{''.join(cells)}</tr>"
