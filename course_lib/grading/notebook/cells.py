"""What was handed in as cells, and what their sources define."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from keyword import iskeyword

from course_lib.grading.handed_in.submissions import Refused
from course_lib.workspace.cell import Cell, entries
from course_lib.workspace.notebooks import metadata

MOST = 2000  # cells of a notebook that are read
_LONGEST = 1_000_000  # characters of a source in which names are looked for
_NEXT = "Open it in JupyterLab, save it, and hand in that file"
_DEFINED = re.compile(
    r"^(?P<indent>[ \t]*)(?:(?:async[ \t]+)?(?:def|class)[ \t]+(?P<name>\w+)"
    r"|(?P<targets>\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*(?::[^=\n]*)?=(?!=))",
    re.MULTILINE,
)
_IMPORT = re.compile(
    r"^[ \t]*(?:from\b.*?\b)?import\b[ \t]*(\([^)]*\)|.*)", re.MULTILINE
)
_MARKERS = {  # what makes nbval skip a cell, or accept its error
    "NBVAL_CHECK_OUTPUT",
    "NBVAL_IGNORE_OUTPUT",
    "NBVAL_RAISES_EXCEPTION",
    "NBVAL_SKIP",
    "PYTEST_VALIDATE_IGNORE_OUTPUT",
}
_BROKEN = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Handed:
    """A notebook that was handed in: its cells, its stage, how many are damaged."""

    cells: list[Cell]
    stage: str
    damaged: int = 0


def parse(data: bytes) -> dict:
    """Return the notebook in the bytes of a file; nothing is known of its cells.

    Errors: `Refused` with a sentence that says why it is none.
    """
    notebook = _json(data)
    if not isinstance(notebook, dict):
        raise Refused(f"not a notebook: it holds {_kind(notebook)}. {_NEXT}")
    version = notebook.get("nbformat", 4)
    if version in (1, 2, 3):
        raise Refused(f"a notebook of an old format, nbformat 3 or older. {_NEXT}")
    if version != 4:
        raise Refused(
            f"not a notebook that is known: its nbformat is {short(version)}, not 4."
            f" {_NEXT}"
        )
    listed = notebook.get("cells")
    if not isinstance(listed, list):
        raise Refused(f"not a notebook: it has no list of cells. {_NEXT}")
    if len(listed) > MOST:
        raise Refused(
            f"a notebook of {len(listed):,} cells, at most {MOST:,} are read. Delete"
            " those that your answers do not need"
        )
    return notebook


def _json(data):
    if not data.strip():
        raise Refused(f"an empty file. {_NEXT}")
    try:
        try:
            return json.loads(data)
        except UnicodeDecodeError:  # a few bad bytes cost only the cell they are in
            return json.loads(data.decode("utf-8", "replace"))
    except RecursionError:
        raise Refused(f"not a notebook: it is nested too deep. {_NEXT}") from None
    except json.JSONDecodeError as error:
        raise Refused(
            f"not a notebook: line {error.lineno} of the file is not JSON"
            f" ({error.msg}). {_NEXT}"
        ) from None
    except ValueError:  # a number of thousands of digits
        raise Refused(f"not a notebook: a number is too long. {_NEXT}") from None


def _kind(value):
    kinds = {dict: "an object", list: "a list", str: "a text", type(None): "nothing"}
    return kinds.get(type(value), "a number")


def short(value) -> str:
    """Return a value of a file, as a sentence may hold it."""
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def tidy(notebook: Mapping) -> Handed:
    """Return the cells of what `parse` gives; what is no cell at all is left out."""
    raws = [raw for raw in notebook["cells"] if isinstance(raw, dict)]
    stage = entries(metadata(notebook), "course").get("stage")
    stage = stage if isinstance(stage, str) else ""
    return Handed([*map(_tidy, raws)], stage, len(notebook["cells"]) - len(raws))


def _tidy(raw):
    """A cell without outputs, with a source that every file can hold."""
    cell = Cell.from_file(raw)
    lines = cell.source.replace("\r\n", "\n").replace("\r", "\n")
    kind = "code" if cell.is_code else "markdown"
    return replace(cell, kind=kind, source=_BROKEN.sub("\ufffd", lines), raw={})


def neutral(text: str) -> str:
    """Return the source with each marker of nbval in brackets, on as many lines."""
    return "".join(map(_unmarked, text.splitlines(keepends=True)))  # as nbval splits


def _unmarked(line):
    text = line.strip()
    marker = text.lstrip("#").strip()
    if text.startswith("#") and marker in _MARKERS:
        return line.replace(marker, f"({marker})")
    return line


# read line by line and not as a syntax tree: a hostile source can end the Python
# that parses it, and a cell may hold magics
def defined(text: str, *, nested: bool = False) -> list[str]:
    """Return the names that a source defines at its top level, or `nested` anywhere."""
    names = []
    for match in _DEFINED.finditer(text[:_LONGEST]):
        if nested or not match["indent"]:
            names += re.findall(r"\w+", match["name"] or match["targets"])
    return [name for name in dict.fromkeys(names) if not iskeyword(name)]


def beginning_with(names: Iterable[str], text: str) -> str:
    """Return a source from the first definition of these names on, without checks."""
    starts = (
        match.start()
        for match in _DEFINED.finditer(text)
        if not match["indent"] and match["name"] in names
    )
    return re.sub(r"^cl\.check\(.*$", "", text[next(starts, 0) :], flags=re.MULTILINE)


def imported(text: str) -> list[str]:
    """Return the names that a source imports, defines as functions or as classes."""
    names = [match["name"] for match in _DEFINED.finditer(text) if match["name"]]
    for match in _IMPORT.finditer(text):
        names += re.findall(r"\w+", match[1])
    return names
