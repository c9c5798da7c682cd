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
        self._values = list(values)
        self.output, self.seconds, self.trace, self.title = (
            output,
            seconds,
            trace,
            title,
        )

    def __getitem__(self, rank):
        return self._values[rank]

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return f"Results of {self.title}: [{', '.join(map(short, self))}]"

    def _repr_html_(self):
        cells = [
            (
                rank,
                short(value),
                f"{self.seconds[rank]:.3f}",
                self.output[rank].count("\n"),
            )
            for rank, value in enumerate(self)
        ]
        head = ("rank", "returned", "seconds", "lines of output")
        rows = "".join(_row("td", row) for row in cells)
        return f"<table>{_row('th', head)}{rows}</table>"


def _row(tag, row):
    style = 'style="text-align:left"'
    return (
        "<tr>"
        + "".join(f"<{tag} {style}>{html.escape(str(x))}</{tag}>" for x in row)
        + "</tr>"
    )
