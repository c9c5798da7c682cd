"""Where the arrows between devices in a row pass, and where their words stand; inches.

Nested arrows do not cross: the longer one passes farther from the row, and leaves and
enters farther out.
"""

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from course_lib.plots import device_captions, figure

ACROSS = 6.1  # in, what margins leave of the figure
_LINE = 0.19  # in, of text on an arrow
_FEW = 5  # devices up to which every arrow goes its own way


class Arrow(NamedTuple):
    """What one device sends to another under one name; columns from the left.

    Arrows of one `bundle` share their way, their words and the end in common.
    """

    name: str
    source: int
    target: int
    sizes: tuple  # bytes of each copy
    bundle: tuple
    level: int = 0  # how far from the row it passes, 0 next to it

    @property
    def ends(self):
        """Return the columns at the left and the right end."""
        return min(self.source, self.target), max(self.source, self.target)

    @property
    def above(self):
        """Return whether it goes to the right, above the row."""
        return self.source < self.target


def collect(flows, devices):
    """The arrows; of many devices those of one name and hub are bundles."""
    column = {device: i for i, device in enumerate(devices)}
    found = []
    for (name, source, target), sizes in flows.items():
        place = column[source], column[target]
        found.append(Arrow(name, *place, tuple(sizes), (name, *place)))
    if len(devices) <= _FEW:
        return found
    out, into = ([_hub(arrow, way) for arrow in found] for way in ("from", "to"))
    fans = Counter(out) + Counter(into)
    return [
        arrow._replace(bundle=max((one, other), key=fans.get))
        if max(fans[one], fans[other]) > 2
        else arrow
        for arrow, one, other in zip(found, out, into, strict=True)
    ]


def _hub(arrow, way):
    hub = arrow.source if way == "from" else arrow.target
    return arrow.name, way, hub, arrow.above, len(arrow.sizes)


def bundles(arrows):
    """The arrows by bundle, each a list with the longest arrow first."""
    found = {}
    for arrow in sorted(arrows, key=lambda a: a.ends[0] - a.ends[1]):
        found.setdefault(arrow.bundle, []).append(arrow)
    return list(found.values())


def levelled(arrows):
    """The arrows, short ones next to the row, none through another of its level."""
    placed = []
    shortest_first = sorted(bundles(arrows), key=lambda b: b[0].ends[1] - b[0].ends[0])
    for bundle in shortest_first:
        (low, high), side = bundle[0].ends, bundle[0].above
        taken = {
            other.level
            for other in placed
            if other.above == side and other.ends[0] < high and low < other.ends[1]
        }
        free = next(i for i in range(len(placed) + 1) if i not in taken)
        placed += [arrow._replace(level=free) for arrow in bundle]
    return placed


def columns(arrows, devices):
    """Left and right of each box, and x by bundle and column of its end, in inches."""
    sides = [
        [_side(arrows, column, above) for above in (True, False)]
        for column in range(len(devices))
    ]
    widths = _widths(devices, [max(map(len, pair)) for pair in sides])
    # neighbours that send to each other need room for words between them
    near = {arrow.ends[0] for arrow in arrows if arrow.ends[1] - arrow.ends[0] == 1}
    weights = [1 if i in near else 0.5 for i in range(len(devices) - 1)]
    spare = min(2.6 * sum(weights), ACROSS - sum(widths))
    gaps = [0, *(weight * spare / sum(weights) for weight in weights)]
    lefts = [sum(widths[:i]) + sum(gaps[: i + 1]) for i in range(len(devices))]
    boxes = [(left, left + width) for left, width in zip(lefts, widths, strict=True)]
    ports = {
        (bundle, column): left + (right - left) * (i + 0.5) / len(own)
        for column, (left, right) in enumerate(boxes)
        for own in sides[column]
        for i, bundle in enumerate(own)
    }
    return boxes, ports


def _widths(devices, ports):
    """Widths of boxes for a name and some ports each, narrower where many stand."""
    least = [figure.text_width(short(d, devices)) / 72 + 0.1 for d in devices]
    wish = [max(0.16 * n + 0.1, w + 0.15) for w, n in zip(least, ports, strict=True)]
    spare = 0.8 * ACROSS - sum(least)
    share = max(0, min(1, spare / (sum(wish) - sum(least))))
    shrink = min(1, 0.9 * ACROSS / sum(least))
    return [shrink * (a + share * (b - a)) for a, b in zip(least, wish, strict=True)]


def short(device, devices):
    """The name in a box: of a crowd only the index."""
    return device if len(devices) < 10 else device.rpartition(":")[2]


def _side(arrows, column, above):
    """Bundles at one edge of a box from left to right; nested ones do not cross."""
    own = [arrow for arrow in arrows if arrow.above == above and column in arrow.ends]
    left = sorted((a for a in own if a.ends[1] == column), key=lambda a: a.level)
    right = sorted((a for a in own if a.ends[0] == column), key=lambda a: -a.level)
    return list(dict.fromkeys(arrow.bundle for arrow in (*left, *right)))


def words(bundle, arrows, ports):
    """The longest arrow of a bundle, its words, and the middle of its widest gap."""
    first = bundle[0]
    low, high = sorted(ports[first.bundle, column] for column in first.ends)
    legs = {
        ports[other.bundle, column]
        for other in arrows
        if other.above == first.above and other.level >= first.level
        for column in other.ends
    }
    stops = sorted({low, high, *(leg for leg in legs if low < leg < high)})
    left, right = max(pairwise(stops), key=lambda pair: pair[1] - pair[0])
    parts = device_captions.flow(first.name, [arrow.sizes for arrow in bundle])
    return first, _fitting(parts, right - left), (left + right) / 2


def _fitting(parts, room):
    """The parts in one line, or in as few as fit into `room`."""
    one = " ".join(parts)
    if figure.text_width(one) / 72 + 0.2 <= room:
        return one
    two = f"{parts[0]}\n{' '.join(parts[1:])}"
    fits = max(map(figure.text_width, two.split("\n"))) / 72 + 0.05 <= room
    return two if fits else "\n".join(parts)


def heights(words, above):
    """How far from the row each level of one side passes; the last is all it takes."""
    lines = {}
    for arrow, text, _ in words:
        if arrow.above == above:
            lines[arrow.level] = max(lines.get(arrow.level, 1), 1 + text.count("\n"))
    heights, edge = [], 0.17 if lines else 0.0
    for level in range(len(lines)):
        # one line of text stands on the arrow, more stand beyond it
        heights.append(edge + 0.12)
        edge += 0.25 if lines[level] == 1 else 0.2 + _LINE * lines[level]
    return [*heights, edge]
