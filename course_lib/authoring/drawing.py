"""Which files draw what a notebook shows: plots, scenes, and what these are made of."""

import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

_FOLDERS = "plots", "scenes"
_USED = re.compile(r"\b(?:cl|scenes)\.(\w+)")
_IMPORTED = re.compile(r"^from course_lib\.?([\w.]*) import (.+)", re.M)


def sources(code: str) -> list[Path]:
    """The files whose change may change a figure of this code, in order."""
    package = Path(str(resources.files("course_lib")))
    modules = [path for folder in _FOLDERS for path in (package / folder).glob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in modules}
    names = "|".join({*_USED.findall(code)}) or "-"
    defined = re.compile(rf"^def ({names})\(", re.M)
    files, new = set(), {path for path in texts if defined.search(texts[path])}
    while new:
        files |= new
        new = {file for path in new for file in _imports(path, package)} - files
    looks = (package / "scenes").glob("*.[cj]s*")
    scenes = looks if any(path.parent.name == "scenes" for path in files) else ()
    return sorted({*files, *scenes})


def _imports(path, package) -> Iterable[Path]:
    """What a module imports of those folders, and the colours."""
    for module, names in _IMPORTED.findall(path.read_text(encoding="utf-8")):
        place = package.joinpath(*module.split("."))
        of_module = [place.with_suffix(".py")]
        of_folder = [place / f"{name.strip()}.py" for name in names.split(",")]
        for file in (*of_module, *of_folder):
            known = file.parent.name in _FOLDERS or file == package / "colors.py"
            if known and file.is_file():
                yield file
