"""Notebooks as plain data: what is read, cleared, compared."""

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping

from course_lib.workspace.cell import Cell, entries


def parse(data: bytes) -> dict | None:
    """Return the notebook in the bytes of a file, None if it is not whole."""
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        return None
    cells = notebook.get("cells")
    whole = isinstance(cells, list) and all(map(_is_cell, cells))
    return notebook if whole else None


def _is_cell(cell):
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    if not isinstance(cell.setdefault("metadata", {}), dict):
        return False
    lines = cell.get("source")
    lines = lines if isinstance(lines, list) else [lines]
    return all(isinstance(line, str) for line in lines)


def dump(notebook: dict) -> bytes:
    """Return the bytes of its file, as JupyterLab writes them."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace")  # half a pair of surrogates


def clear(notebook: dict) -> dict:
    """Return the same without outputs, and without what belongs to them."""
    cleared = copy.deepcopy(notebook)
    for key in ("widgets", "course_code"):
        metadata(cleared).pop(key, None)
    for cell in cleared["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return cleared


def cells(notebook: Mapping) -> Iterator[Cell]:
    """Return the cells of a notebook, parsed."""
    return map(Cell.from_file, notebook["cells"])


def digest(value) -> str:
    """Return a short hash of bytes, or of what JSON can hold."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def words(data: bytes, notebook: dict | None) -> str:
    """Return a hash of what people write: the sources of a notebook, or all of a file.

    Neither outputs nor ids are in it, nor cells that are empty.
    """
    if notebook is None:
        return digest(data)
    texts = [[cell.kind, cell.plain] for cell in cells(notebook)]
    return digest([text for text in texts if text[1]])


def version(data: bytes, notebook: dict | None) -> str:
    """Return a hash of all that the course hands out of a file: no outputs."""
    if notebook is None:
        return digest(data)
    handed_out = [
        [cell.source, cell.id, cell.kind, cell.metadata]
        for cell in cells(clear(notebook))
    ]
    return digest([metadata(notebook).get("course"), handed_out])


def is_released(notebook: Mapping) -> bool:
    """Return True for an exercise into which nobody has written."""
    known = entries(metadata(notebook), "course").get("released")
    return known is not None and known == fingerprint(notebook)


def fingerprint(notebook: Mapping) -> str:
    """Return a hash of all cells, to tell whether somebody wrote into an exercise.

    Outputs are not in it: an exercise that was only run is as it was released.
    """
    return digest([[cell.id, cell.kind, cell.source] for cell in cells(notebook)])


def metadata(notebook: Mapping) -> dict:
    """Return its metadata, empty where they are missing or damaged."""
    return entries(notebook, "metadata")
