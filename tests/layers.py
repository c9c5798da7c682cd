"""Which folder of the package imports which; `make pages` draws docs/layers.svg.

import-linter reads the imports and holds them against the order in pyproject.toml.
"""

import ast
import copy
import functools
import graphlib
import textwrap
from html import escape
from pathlib import Path

import course_lib
from tests.answers import tomllib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "course_lib"
SETTINGS = ROOT / "pyproject.toml"
PICTURE = ROOT / "docs" / "layers.svg"
_CONTRACTS = tomllib.loads(SETTINGS.read_text())["tool"]["importlinter"]["contracts"]
# from the ground up: each may import what stands before it, and nothing behind it
ORDER = tuple(reversed(_CONTRACTS[0]["layers"]))
# what all others may import; one box of the picture
BASE = tuple(name for name in ORDER[:-1] if not (PACKAGE / name).is_dir())


def modules() -> dict[str, Path]:
    """The modules of the package by dotted name; a folder by its name, the face ""."""
    return {_dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _dotted(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


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


@functools.cache
def graph():
    """Who imports whom, as import-linter reads it."""
    import grimp  # not on every machine on which tests are collected

    return grimp.build_graph("course_lib", cache_dir=None)


def units(folder: str) -> dict[str, list[str]]:
    """For each module and folder in a folder those beside it that it imports."""
    inside, above = (
        copy.deepcopy(graph()),
        ".".join(filter(None, [PACKAGE.name, folder])),
    )
    names = sorted(inside.find_children(above))
    for name in names:
        inside.squash_module(name)
    own = {name: name.rpartition(".")[2] for name in names}
    reached = {name: inside.find_modules_directly_imported_by(name) for name in names}
    return {
        own[name]: sorted(own[other] for other in reached[name] & {*names} - {name})
        for name in names
    }


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
    pairs = [(one, to) for one, below in units("").items() for to in below]
    ground = f"import course_lib as cl: {len(course_lib.__all__)} public names"
    parts = [_box("course_lib/*.py", [ground, ", ".join(BASE)], height - _ROW - _GAP)]
    parts += [_box(*_words(name), tops[name]) for name in names]
    parts += [_arc(tops[a], tops[b]) for a, b in pairs if a in tops and b in tops]
    return _PAGE.format(width=_WIDTH + _ARCS, height=height, parts="\n".join(parts))


def _words(name):
    """The head of a box, and its lines: what the folder is, what it holds."""
    folder = PACKAGE / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    sentence = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    lines = [sentence.split("\n")[0]]
    if folder.is_dir():
        # each after what it imports
        inner = graphlib.TopologicalSorter(units(name)).static_order()
        lines.append(", ".join(f"{u}/" if (folder / u).is_dir() else u for u in inner))
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
