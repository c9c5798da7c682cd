"""A moment as a still picture in SVG, for where no script runs."""

import math
import textwrap
from html import escape
from importlib import resources

from course_lib.colors import MEMORY_COLORS, RANK_COLORS, ROLE_COLORS, edge, text_color
from course_lib.scenes.items import label

_THIN = 1.2  # so that an event of no length is seen
_LINE = 18
# by the name of a role in CSS
COLORS = {
    name.replace(" ", "-"): color
    for name, color in (ROLE_COLORS | MEMORY_COLORS).items()
} | {f"rank-{number}": color for number, color in enumerate(RANK_COLORS)}
HEAD = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"'


def style(items) -> str:
    """Return the looks of items: `items.css`, and the colours of their roles."""
    used = {role for item in items for role in item.role.split()}
    rules = [
        f".{name} rect{{fill:{color};stroke:{_edge(color)}}}"
        f".{name} text{{fill:{text_color(color)}}}.{name} path{{stroke:{color}}}"
        for name, color in COLORS.items()
        if name in used
    ]
    return "\n".join([read_file("items.css"), *rules])


def _edge(color):
    """Return what parts neighbours of one colour: the ground, or a dark shade."""
    shade = edge(color)
    return "var(--ground,#fff)" if shade == "#ffffff" else shade


def class_name(role: str) -> str:
    """Return a role as CSS names it: `other-compute`."""
    return role.replace(" ", "-")


def read_file(name: str) -> str:
    """Return a file of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def picture(scene, moment) -> str:
    """Return a moment as an SVG document in a light theme, with title and source."""
    (width, height), axis = scene.size, scene.axis
    titles, sources = textwrap.wrap(moment.title, 84), textwrap.wrap(scene.source, 98)
    top, below = _LINE * len(titles) + 4, _LINE * len(sources)
    box = f"0 {-top} {width:g} {height + top + below:g}"
    size = f'width="{width:g}" height="{height + top + below:g}"'
    parts = [f'<svg {HEAD} viewBox="{box}" {size}><style>{style(moment.items)}</style>']
    # where no script runs, nothing tells the picture of a dark page
    parts.append(f'<rect y="{-top}" width="100%" height="100%" fill="#fff"/>')
    parts += _lines(titles, 10 - top, "label strong head")
    parts += _lines(sources, height + 8, "label soft head")
    parts += [tick(time, axis) for time in ticks(axis)] if axis else []
    return "".join([*parts, *bodies(moment.items, axis), "</svg>"])


def bodies(items, axis):
    """Draw all items in their places: rows below, events of a role as one on top."""
    bars = {}
    for item in sorted(items, key=_layer):
        placed = axis.place(item) if axis else item
        if is_event(item):
            bars.setdefault((item.role, item.h), []).append(placed)
        else:
            yield draw_item(placed)
    yield from map(bar_path, bars.values())


def _lines(texts, y, role):
    """Texts below each other, the first at the height `y`."""
    for number, text in enumerate(texts):
        yield draw_item(label("line", (0, y + _LINE * number), text, role=role))


def _layer(item):
    """Rows lie below all else, as in the script."""
    return "box" not in item.role.split()


def is_event(item) -> bool:
    """Return whether its width is that of what it stands for."""
    return "event" in item.role.split()


def _fitting(item):
    """Fit into an event its text, or its number, or nothing, as room is."""
    if 6.6 * len(item.text) + 4 <= item.w:
        return item.text
    last = item.text.rpartition(" ")[2]
    return last if last.isdecimal() and 6.6 * len(last) + 2 <= item.w else ""


def ticks(axis) -> list[float]:
    """Return times for a ruler, at 1, 2 or 5 times a power of ten, six or fewer."""
    rough = axis.length / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough)
    first = math.ceil(axis.start / step)
    last = math.floor((axis.start + axis.length * 1.0001) / step)
    return [n * step for n in range(first, last + 1)]


def tick(time, axis) -> str:
    """Draw a line of the ruler, with its number below."""
    x = axis.left + (time - axis.start) / axis.length * axis.width
    text = f"{float(f'{time:.10g}'):,.10g}"
    return (
        f'<g class="tick"><path d="M{x:.1f} {axis.top:g}V{axis.bottom:g}"/>'
        f'<text x="{x:.1f}" y="{axis.bottom + 12:g}">{text}</text></g>'
    )


def bar_path(items) -> str:
    """Draw bars of a role and height as a path, whose stroke is as wide as that."""
    role, high = items[0].role, items[0].h
    strokes, texts = [], []
    for item in items:
        y = f"{item.y + high / 2:.4g}"
        wide = item.w - (item.w > 4)  # the hair that parts neighbours
        strokes.append(f"M{item.x:.4g} {y}h{max(_THIN, wide):.3g}")
        if text := _fitting(item):
            x = item.x + item.w / 2
            texts.append(f'<text x="{x:.4g}" y="{y}">{escape(text)}</text>')
    path = f'<path d="{"".join(strokes)}" style="stroke-width:{high:g}"/>'
    return f'<g class="{escape(role)}">{path}{"".join(texts)}</g>'


def draw_item(item) -> str:
    """Draw one item that is no event, in its place."""
    roles = item.role.split()
    x, y, text = 0, 0, ""
    if {"line", "arrow"} & {*roles}:
        shape = f'<path d="{line_path(item.w, item.h, head="arrow" in roles)}"/>'
        x, y = item.w / 2, item.h / 2 - 7
    else:
        round_ = item.w / 2 if "dot" in roles else 3
        shape = f'<rect width="{item.w:.4g}" height="{item.h:.4g}" rx="{round_:.3g}"/>'
        x, y = item.w / 2, item.h / 2
    if "label" in roles or "box" in roles:
        x, y = (0, item.h / 2) if "label" in roles else (6, 12)
        shape = "" if "label" in roles else shape
    if item.text:
        text = f'<text x="{x:.4g}" y="{y:.4g}">{escape(item.text)}</text>'
    place = f"translate({item.x:.5g} {item.y:.5g})"
    return f'<g class="{escape(item.role)}" transform="{place}">{shape}{text}</g>'


def line_path(width, height, *, head) -> str:
    """Return the path from 0, 0 to width, height; with a head it is an arrow."""
    path = f"M0 0L{width:.4g} {height:.4g}"
    if not head:
        return path
    long = math.hypot(width, height) or 1
    a, b = 6 * width / long, 6 * height / long
    for side in (1, -1):
        x, y = width - a - side * b / 2, height - b + side * a / 2
        path += f"M{width:.4g} {height:.4g}L{x:.4g} {y:.4g}"
    return path
