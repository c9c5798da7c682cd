"""Which folder of the package imports which; `make pages` draws docs/layers.svg."""

import ast
import functools
import graphlib
import textwrap
from collections import Counter
from html import escape
from pathlib import Path

import course_lib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "course_lib"
PICTURE = ROOT / "docs" / "layers.svg"
# what all others may import; one box of the picture
BASE = ("text", "errors", "stacks", "colors", "display", "data")
# from the ground up: each may import what stands before it, and nothing behind it
ORDER = (
    *BASE,
    *("system", "accelerators", "tracing", "plots", "scenes", "launching", "studies"),
    "clusters",
    *("exercises", "lessons", "checkup", "workspace", "authoring", "grading"),
    "__main__",
)


def modules() -> dict[str, Path]:
    """The modules of the package by dotted name; a folder by its name, the face ""."""
    return {_dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _dotted(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@functools.cache
def graph() -> dict[str, set[str]]:
    """For each module those that it imports, at its head or inside a function."""
    names = modules()
    return {name: imports(path) & set(names) for name, path in names.items()}


def imported(text: str) -> set[str]:
    """The dotted names that a module imports, anywhere in it: modules and members."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            names.add(node.module)
    return names


def imports(path: Path) -> set[str]:
    """What a module imports of the package, modules and their members alike."""
    names = imported(path.read_text(encoding="utf-8"))
    parts = (name.partition(".") for name in names)
    return {inner for top, _, inner in parts if top == "course_lib"}


def arrows() -> Counter:
    """How many imports run from one entry of `ORDER` to another."""
    return Counter(
        (top(module), top(target))
        for module, targets in graph().items()
        for target in targets
        if module and target and top(module) != top(target)
    )


def top(module: str) -> str:
    """The entry of `ORDER` that holds a module."""
    return module.partition(".")[0]


def backward() -> list[tuple[str, str]]:
    """The imports that run against `ORDER`; there are to be none."""
    place = {name: number for number, name in enumerate(ORDER)}
    return [pair for pair in arrows() if place[pair[0]] < place[pair[1]]]


def within(folder: str) -> dict[str, set[str]]:
    """For each module and folder in a folder those beside it that it imports."""
    depth, units = folder.count(".") + 2, {}
    for module, targets in graph().items():
        if module.startswith(f"{folder}."):
            own = ".".join(module.split(".")[:depth])
            inner = (name for name in targets if name.startswith(f"{folder}."))
            others = {".".join(name.split(".")[:depth]) for name in inner} - {own}
            units.setdefault(own, set()).update(others)
    return units


def in_order(folder: str) -> list[str]:
    """The modules and folders in a folder: each after what it imports.

    Errors: graphlib.CycleError if they import each other.
    """
    units = {name: sorted(others) for name, others in within(folder).items()}
    return list(graphlib.TopologicalSorter(units).static_order())


# --- the picture

_WIDTH, _ROW, _GAP, _ARCS, _HEAD = 560, 66, 12, 150, 34  # points
_LINE = 92  # characters of a line in a box
_INK, _SOFT, _FILL, _WRONG = "#222222", "#555555", "#eef4fb", "#d55e00"
_CAPTION = (
    "An arc runs from what imports down to what is imported; all import the ground."
)


def picture() -> str:
    """The layers as SVG: the ground below, an arc for each pair that imports."""
    names = [name for name in ORDER if name not in (*BASE, "__main__")]
    height = _HEAD + (len(names) + 1) * (_ROW + _GAP)
    tops = {
        name: height - (number + 2) * (_ROW + _GAP) for number, name in enumerate(names)
    }
    pairs = sorted(pair for pair in arrows() if set(pair) <= set(names))
    ground = f"import course_lib as cl: {len(course_lib.__all__)} public names"
    parts = [_box("course_lib/*.py", [ground, ", ".join(BASE)], height - _ROW - _GAP)]
    parts += [_box(*_words(name), tops[name]) for name in names]
    parts += [_arc(tops[a], tops[b]) for a, b in pairs]
    return _PAGE.format(width=_WIDTH + _ARCS, height=height, parts="\n".join(parts))


def _words(name):
    """The head of a box, and its lines: what the folder is, what it holds."""
    folder = PACKAGE / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    sentence = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    lines = [sentence.split("\n")[0]]
    if folder.is_dir():
        units = [unit.rpartition(".")[2] for unit in in_order(name)]
        lines.append(", ".join(f"{u}/" if (folder / u).is_dir() else u for u in units))
    return f"{name}/" if folder.is_dir() else file.name, lines


def _box(head, lines, y):
    rows = [part for line in lines for part in textwrap.wrap(line, _LINE)]
    texts = [
        f'<text class="small" x="24" y="{y + 32 + 13 * number}">{escape(row)}</text>'
        for number, row in enumerate(rows)
    ]
    frame = f'<rect class="box" x="12" y="{y}" width="{_WIDTH - 12}" height="{_ROW}"/>'
    return "\n".join(
        [frame, f'<text class="head" x="24" y="{y + 18}">{escape(head)}</text>', *texts]
    )


def _arc(start, stop):
    """From the box that imports down to the other; one that runs up is red."""
    from_y, to_y = start + _ROW * 0.65, stop + _ROW * 0.35
    reach = _WIDTH + 10 + (_ARCS - 10) * min(1, abs(start - stop) / 600)
    color = _INK if stop > start else _WRONG
    curve = f"C{reach:.0f} {from_y:.0f} {reach:.0f} {to_y:.0f} {_WIDTH + 6} {to_y:.0f}"
    return (
        f'<path class="arc" d="M{_WIDTH} {from_y:.0f} {curve}" stroke="{color}"/>'
        f'<path d="M{_WIDTH} {to_y:.0f} l8 -4 v8 z" fill="{color}"/>'
    )


_PAGE = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{width}} {{height}}"
 width="{{width}}" height="{{height}}" font-family="sans-serif" role="img">
<title>The folders of course_lib, the ground below; no arc runs up</title>
<style>
.box {{{{ fill: {_FILL}; stroke: {_SOFT}; rx: 4px }}}}
.arc {{{{ fill: none; stroke-width: 1.2; opacity: .75 }}}}
.head {{{{ font-size: 13px; font-weight: bold; fill: {_INK} }}}}
.small {{{{ font-size: 11px; fill: {_SOFT} }}}}
</style>
<rect width="100%" height="100%" fill="white"/>
<text class="small" x="12" y="20">{_CAPTION}</text>
{{parts}}
</svg>
"""
