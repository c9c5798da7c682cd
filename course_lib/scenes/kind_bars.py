"""Bars of the four kinds of memory, their legend, and the line that they may not pass.

What scenes share that show bytes by kind.
"""

from course_lib.accelerators.memory import KINDS
from course_lib.scenes.items import Item, fitting, label
from course_lib.scenes.svg import class_name
from course_lib.text import size

LEFT, WIDTH, HIGH, ROW = 84, 470, 30, 38  # of the bars
_LEGEND = 4  # y


def bar(name, y: float, held: dict, *, scale, said: str, pale=False, texts=True):
    """Yield the parts of a bar: `held` is bytes by kind, `scale` units for a byte.

    Names of items end in `name`; for who points at a part, `said` comes before it. A
    `pale` bar has an outline that does not depend on its colours. Without `texts`, the
    bytes are in the tips alone.
    """
    x = float(LEFT)
    for kind, count in held.items():
        wide = count * scale
        text = fitting(size(count), wide) if texts else ""
        tip = f"{said}: {kind}, {size(count)}"
        role = class_name(kind) + (" faded" if pale else "")
        yield Item(f"{kind} {name}", x, y, max(wide, 1.2), HIGH, role, text, tip)
        x += wide
    if pale:
        yield Item(f"outline {name}", LEFT, y, x - LEFT, HIGH, "place")


def total(name: str, y: float, count: float, *, capacity: float, scale: float) -> Item:
    """Return the text beside a bar: its bytes, and whether they fit."""
    text = f"{size(count)} {'✗' if count > capacity else '✓'}"
    end = LEFT + max(count, capacity) * scale + 6
    return label(f"total {name}", (end, y + HIGH / 2), text)


def limit(capacity: float, *, top: float, rows: int, scale: float):
    """Yield the line of a GPU's capacity across bars that begin at `top`."""
    x, high = LEFT + capacity * scale, rows * ROW + 6
    yield Item("capacity", x, top - 10, 0, high, "limit line")
    text = f"capacity {size(capacity)}"
    yield label("room", (x, top - 18), text, role="label middle")


def legend():
    """Yield a sign and a name for each kind."""
    for kind, x in places().items():
        yield Item(f"sign {kind}", x, _LEGEND, 14, 14, class_name(kind))
        yield label(f"kind {kind}", (x + 20, _LEGEND + 7), kind)


def places() -> dict[str, float]:
    """Return where the sign of each kind stands, from the left."""
    x, found = float(LEFT), {}
    for kind in KINDS:
        found[kind] = x
        x += 20 + 6.6 * len(kind) + 22
    return found
