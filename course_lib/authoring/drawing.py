"""Which code draws what a notebook shows: plots, scenes, and what these are made of."""

import ast
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from course_lib.authoring.code import definitions, plain

_FOLDERS = "plots", "scenes"
_USED = re.compile(r"\b(?:cl|scenes)\.(\w+)")
_COLORS = "course_lib.colors"


def drawn(code: str) -> Iterable[str]:
    """Yield what changes a figure of this code: modules, styles, the colours they use.

    Of modules it is the code alone; of the colours those that a module imports.
    """
    colors = set()
    for path in sources(code):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            colors |= {name for module, name in _imported(text) if module == _COLORS}
            text = plain(text)
        yield text
    table = _package() / "colors.py"
    yield from map(plain, definitions(table.read_text(encoding="utf-8"), colors))


def sources(code: str) -> list[Path]:
    """Return the files whose change may change a figure of this code, in order."""
    package = _package()
    modules = [path for folder in _FOLDERS for path in (package / folder).glob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in modules}
    names = "|".join({*_USED.findall(code)}) or "-"
    defined = re.compile(rf"^def ({names})\(", re.M)
    files, new = set(), {path for path in texts if defined.search(texts[path])}
    while new:
        files |= new
        new = {file for path in new for file in _imports(texts[path])} - files
    looks = (package / "scenes").glob("*.[cj]s*")
    scenes = looks if any(path.parent.name == "scenes" for path in files) else ()
    return sorted({*files, *scenes})


def _package():
    return Path(str(resources.files("course_lib")))


def _imported(text):
    """The members that a module imports, each with its module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


def _imports(text) -> Iterable[Path]:
    """What a module imports of those folders."""
    for module, name in _imported(text):
        parts = module.split(".")
        for place in (parts, [*parts, name]):
            file = _package().joinpath(*place[1:]).with_suffix(".py")
            known = place[0] == "course_lib" and file.parent.name in _FOLDERS
            if known and file.is_file():
                yield file
