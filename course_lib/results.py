"""What a launch gives back: one value per rank, its output, its trace."""

import html
from collections.abc import Sequence


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


_TYPES = {
    "float": "f",
    "bfloat": "bf",
    "int": "i",
    "uint": "u",
    "complex": "c",
    "bool": "b",
}


def short(value) -> str:
    """A value in one line: a tensor as `f32[8, 4]`, all else by its repr, cut at 60."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None and len(shape):
        return f"{_short_type(dtype)}[{', '.join(map(str, shape))}]"
    if isinstance(value, dict):
        inner = "{" + ", ".join(f"{k!r}: {short(v)}" for k, v in value.items()) + "}"
    elif type(value) in (list, tuple):
        inner = _sequence(value)
    else:
        inner = " ".join(_repr(value).split())
    return inner if len(inner) <= 60 else inner[:57] + "..."


def _sequence(value):
    """`[1, f32[8, 4]]` if it fits, else how many there are and the first."""
    ends = "[]" if isinstance(value, list) else "()"
    whole = ", ".join(map(short, value[:20]))
    if len(value) <= 20 and len(whole) <= 50:
        comma = "," if len(value) == 1 and ends == "()" else ""
        return f"{ends[0]}{whole}{comma}{ends[1]}"
    first = ", ".join(map(short, value[:4]))
    return f"{type(value).__name__} of {len(value)}: {first}"


def _repr(value):
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__name__}"


def _short_type(dtype):
    name = str(dtype).removeprefix("torch.")
    letters = name.rstrip("0123456789")
    return _TYPES.get(letters, letters) + name[len(letters) :]
