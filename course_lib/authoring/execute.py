"""Run notebooks from the top and keep their outputs for readers who do not run them."""

import argparse
import base64
import hashlib
import io
import itertools
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from course_lib.authoring import drawing
from course_lib.lessons.guess import NEXT_TIME

_LARGEST = 450_000  # bytes of stored output: more would swamp a diff
_SUMMARY = "cl.summary()"  # it lists all exercises: each new one would change it


def fingerprint(notebook) -> str:
    """Return a hash of the code that the stored outputs belong to.

    That is the code of the cells, as readers see it, and that of the plots and scenes
    which they show, without comments and docstrings.
    """
    code = "\n\0".join(
        cell.source for cell in notebook.cells if cell.cell_type == "code"
    )
    parts = "\0".join([code, *drawing.drawn(code)])
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def execute(path: Path, *, timeout: float = 120.0):
    """Run the notebook at `path` in a new kernel; it comes back with its outputs.

    A terminal shows meanwhile how far it is.

    Errors: `nbclient.exceptions.CellExecutionError` at a cell that fails (and does not
    carry the tag `raises-exception`), `CellTimeoutError` after `timeout` seconds in a
    cell.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    count, numbers = len(_code(notebook)), itertools.count(1)

    def show(**_):
        if sys.stderr.isatty():
            text = f"\r{path}: code cell {next(numbers)} of {count}"
            print(text, end="", file=sys.stderr, flush=True)

    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook, timeout=timeout, resources=place, on_cell_executed=show
    )
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        # not the progress of whoever works in this clone, nor results of before
        places = {"COURSE_LIB_PROGRESS": str(Path(folder) / "progress")}
        places |= {"COURSE_LIB_CACHE": str(Path(folder) / "cache")}
        client.execute(env=os.environ | places)
    return notebook


def tidy(notebook) -> None:
    """Drop what differs between runs and no reader needs; note the code's hash."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["course_code"] = fingerprint(notebook)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    for number, cell in enumerate(_code(notebook), start=1):
        cell.execution_count = number
        if cell.source == _SUMMARY:
            cell.outputs = []
        # a line that was shown while the cell ran, and then taken away
        cell.outputs = [o for o in cell.outputs if o.get("data") != {}]
        for output in cell.outputs:
            output.pop("transient", None)
            if "text" in output:
                output.text = _anywhere(output.text)
            if "traceback" in output:
                output.traceback = [_anywhere(line) for line in output.traceback]
            if "execution_count" in output:
                output.execution_count = number
            data = output.get("data", {})
            _shrink(data)
            _without_kernel(data)


def _without_kernel(data):
    """Leave the text for buttons and sliders, and no word to somebody who guesses."""
    widget = data.pop("application/vnd.jupyter.widget-view+json", None)
    if widget and "text/html" not in data:
        data["text/plain"] = "Run this cell to get its sliders."
    for kind in data.keys() & {"text/plain", "text/html"}:
        data[kind] = data[kind].replace(f" {NEXT_TIME}", "")


def _anywhere(text):
    """A text without the folders of this machine, which are of no use to readers."""
    for folder, name in ((sys.prefix, ".venv"), (sys.base_prefix, "/usr")):
        text = text.replace(folder, name)
    return text


def _shrink(data):
    """Store figures with 64 colours: a third of the bytes, the same to the eye."""
    if "image/png" in data:
        data["image/png"] = _small(data["image/png"])
    if "text/html" in data:  # the same picture, with its alt text
        page = re.compile('(?<=data:image/png;base64,)[^"]*')
        data["text/html"] = page.sub(lambda match: _small(match[0]), data["text/html"])


def _small(picture):
    """The same picture, in base64 as it came."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    small = io.BytesIO()
    image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    return base64.b64encode(small.getvalue()).decode()


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def stale(notebook) -> bool:
    """Return True if the stored outputs are older than the code or what draws them."""
    return notebook.metadata.get("course_code") != fingerprint(notebook)


def save(notebook, path: Path) -> None:
    """Write a notebook with its outputs, refused above 450 kB of output.

    Errors: `ValueError` with the size and the largest cell.
    """
    import nbformat

    tidy(notebook)
    sizes = {cell.id: len(json.dumps(cell.outputs)) for cell in _code(notebook)}
    if sum(sizes.values()) > _LARGEST:
        worst = max(sizes, key=sizes.__getitem__)
        raise ValueError(
            f"{path}: {sum(sizes.values()):,} bytes of output,"
            f" at most {_LARGEST:,} are kept;"
            f" cell {worst} alone has {sizes[worst]:,}"
        )
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def main(args: list[str]) -> int:
    """Run the notebooks that were named; exit status 1 if one of them fails."""
    parser = argparse.ArgumentParser("python -m course_lib run", description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument(
        "--save", action="store_true", help="keep the outputs in the files"
    )
    arguments = parser.parse_args(args)
    failed = 0
    for path in arguments.notebooks:
        began = time.monotonic()
        try:
            notebook = execute(path)
            if arguments.save:
                save(notebook, path)
        except Exception as error:
            failed += 1
            print(f"\r{path}: failed\n{error}", file=sys.stderr)
            continue
        saved = ", outputs saved" if arguments.save else ""
        print(
            f"\r{path}: {len(_code(notebook))} code cells"
            f" in {time.monotonic() - began:.1f} s{saved}"
        )
    return int(failed > 0)
