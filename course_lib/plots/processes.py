"""The figure of processes that share memory: what each finds in its tensors."""

import numpy as np
from matplotlib.patches import Rectangle

from course_lib.colors import edge, rank_color, text_color
from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import listed

_SHARED = "shared"
_CELL = 0.4  # in, one number of a tensor
_ROW = 0.8  # in, one process
_LABEL = 0.75  # in, its name


@figure.styled
def plot_processes(held, *, ax=None):
    """Draw what each process finds in its tensors: `{process: {tensor: numbers}}`.

    A tensor named "shared" is one piece of memory, drawn once for all processes.
    """
    names = list(next(iter(held.values()), ()))
    if not names or any(list(tensors) != names for tensors in held.values()):
        raise UsageError(
            "cannot draw what processes hold: expected the same tensors of each, found "
            f"{[list(t) for t in held.values()]}. Try {{'parent': {{'own': a}}, ...}}."
        )
    ax = figure.canvas(ax, _ROW * len(held), margins=0.75)
    left = _LABEL
    for name in names:
        numbers = [np.ravel(tensors[name]).tolist() for tensors in held.values()]
        if name == _SHARED:
            # a line from each process to the one tensor in the middle
            left += 0.35
            _common(ax, left, name, numbers=numbers)
        else:
            _private(ax, left, name, numbers=numbers)
        left += _CELL * len(numbers[0]) + 0.5
    for row, process in enumerate(held):
        ax.text(0, _ROW * (row + 0.62), process, va="center", fontsize=11)
    views = [f"{who} sees {_listed(tensors)}" for who, tensors in held.items()]
    title = "; ".join(f"{name}: {_kind(name)}" for name in names)
    return figure.finish(ax, title, source="measured", alt="; ".join(views), below=4)


def _private(ax, left, name, *, numbers):
    for row, values in enumerate(numbers):
        _cells(ax, (left, _ROW * row + 0.3), values, color=rank_color(row))
        ax.text(left, _ROW * row + 0.24, name, va="bottom", color="#555555")


def _common(ax, left, name, *, numbers):
    middle = _ROW * (len(numbers) / 2 + 0.12)
    for row in range(len(numbers)):
        ends = [left - 0.78, left - 0.03], [_ROW * (row + 0.62), middle]
        ax.plot(*ends, color=rank_color(row), linewidth=2, label=f"row {row}")
    _cells(ax, (left, middle - _CELL / 2), numbers[0], color=figure.GREY)
    place = left, middle - _CELL / 2 - 0.06
    ax.text(*place, f"{name}: one piece of memory", va="bottom", color="#555555")


def _cells(ax, corner, numbers, *, color):
    x, y = corner
    for i, number in enumerate(numbers):
        style = {"facecolor": color, "edgecolor": edge(color), "linewidth": 1.5}
        ax.add_patch(Rectangle((x + i * _CELL, y), _CELL, _CELL, **style))
        middle = x + (i + 0.5) * _CELL, y + _CELL / 2
        ax.text(*middle, f"{number:g}", color=text_color(color), **figure.CENTRED)


def _kind(name):
    return "one tensor for all" if name == _SHARED else "one in each process"


def _listed(tensors):
    parts = (f"{name} {np.ravel(x).tolist()}" for name, x in tensors.items())
    return listed(parts)
