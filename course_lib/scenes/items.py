"""What a scene is made of: items with a place and a role, moments with a title."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from course_lib.errors import UsageError

_LETTER = 6.6  # units of width, on average
TIMED = "timed"  # x and w are times of the axis, not places in the picture


class Item(NamedTuple):
    """One thing in a moment; in the next moment it may be elsewhere.

    `x`, `y` is its upper left corner, `w`, `h` its size, in units of which a figure is
    640 wide. Roles are names of `colors` (`forward`, `rank-2`) and those of
    `items.css`: `box`, `label`, `place`, `arrow`, `line`, `dot`, `again`; several stand
    beside each other; what is `gone` is not seen yet, and will move in from there.
    `tip` is what is read when somebody points at it.
    """

    id: str
    x: float
    y: float
    w: float
    h: float
    role: str
    text: str = ""
    tip: str = ""


class Moment(NamedTuple):
    """A moment of a scene; `title` says in a sentence what is to be seen."""

    title: str
    items: Iterable[Item]


class Axis(NamedTuple):
    """Time along x: items with the role `timed` have times in place of x and w.

    `left`, `width`, `top`, `bottom` are places; `start` and `length` times in `unit`.
    """

    left: float
    width: float
    top: float
    bottom: float
    start: float
    length: float
    unit: str

    def place(self, item: Item) -> Item:
        """Return the item with x and w as places in the picture."""
        if TIMED not in item.role.split():
            return item
        scale = self.width / self.length
        x = self.left + (item.x - self.start) * scale
        return item._replace(x=x, w=item.w * scale)


def label(name, at, text, *, role="label") -> Item:
    """Return a text without a frame around it, at the place (x, y)."""
    x, y = at
    return Item(name, x, y, 0, 0, role, text)


def fitting(text: str, wide: float) -> str:
    """Return the text, or none where a box of this width has no room for it."""
    return text if _LETTER * len(text) + 4 < wide else ""


def cut(text: str, wide: float) -> str:
    """Return the text, or its beginning and "…" where it is wider."""
    most = max(1, int(wide / _LETTER))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def checked(moments: Iterable[Moment]) -> list[Moment]:
    """Return the moments as a list.

    Errors: `UsageError` for none, for an item that is nowhere (nan), for two items in a
    moment with one id.
    """
    moments = [Moment(str(title), tuple(items)) for title, items in moments]
    if not moments:
        raise UsageError("a scene needs a moment: there was nothing to show")
    for title, items in moments:
        seen = set()
        for item in items:
            if not all(map(math.isfinite, item[1:5])):
                where = ", ".join(map(str, item[1:5]))
                raise UsageError(f"cannot draw {item.text or item.id!r} at {where}")
            if item.id in seen:
                raise UsageError(f"two items are named {item.id!r} in: {title}")
            seen.add(item.id)
    return moments
