"""The sources of the book: what Jupyter Book reads, written from the project."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from course_lib.lessons.guess import sentences
from docs.book import contents, folds, names, outputs
from docs.book.links import Links

HERE = Path(__file__).parent
ABOUT = """```{{note}}
This is the course to read: nothing runs here, and outputs are those of a stored run.
Where a lesson asks, think before you open the answer. To run the cells and do the
exercises, take the [course itself]({repository}).
```
"""


def write(folder: Path, repository: str) -> int:
    """Write all sources into a folder, which is emptied before; how many there are.

    Errors: `BookError` for a link to a file that is not there.
    """
    links = Links(contents.places(), repository, contents.ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    count = 0
    for path, content in _all(links):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        count += 1
    return count


def _all(links) -> Iterator[tuple[str, str | bytes]]:
    """Path and content of each source."""
    titles = {}
    for source, place in links.places.items():
        if source.endswith(".ipynb"):
            notebook = chapter(source, links)
            titles[source] = title(notebook, source)
            yield place, json.dumps(notebook, ensure_ascii=False)
        elif source.endswith(".md") and source != contents.NAMES:
            text = (links.root / source).read_text(encoding="utf-8")
            yield place, page(text, source, links)
        elif source != contents.NAMES:
            yield place, (links.root / source).read_bytes()
    yield contents.NAMES, names.page(public())
    yield "_toc.yml", json.dumps(contents.toc(titles), indent=1)
    yield "_config.yml", config(links.repository)
    yield "_static/book.css", (HERE / "book.css").read_bytes()


def chapter(source: str, links: Links) -> dict:
    """A notebook as a chapter: a lesson with folded answers, or exercises with hints.

    Errors: `BookError`.
    """
    notebook = json.loads((links.root / source).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            cell["source"] = links.rewritten(cell["source"], source)
        else:
            cell["outputs"] = list(map(outputs.shown, cell["outputs"]))
    if source.startswith("exercises/"):
        from course_lib.exercises.catalog import find_exercise  # it imports torch

        def hints(name):
            return find_exercise(name).hints

        cells = folds.with_hints(notebook["cells"], hints)
    else:
        cells = folds.with_answers(notebook["cells"], sentences)
    return notebook | {"cells": cells}


def title(notebook: dict, source: str) -> str:
    """What the table of contents calls a notebook; a lesson with its number."""
    head = notebook["cells"][0]["source"].splitlines()[0].removeprefix("# ")
    number = Path(source).name.partition("_")[0]
    return f"{number} {head}" if source.startswith("notebooks/") else head


def page(text: str, source: str, links: Links) -> str:
    """The Markdown of a page; the README becomes the front page."""
    text = links.rewritten(text, source)
    if source != contents.README:
        return text
    head, rest = text.split("\n", 1)
    return f"{head}\n\n{ABOUT.format(repository=links.repository)}{rest}"


def config(repository: str) -> str:
    """The configuration of Jupyter Book."""
    text = (HERE / "config.yml").read_text(encoding="utf-8")
    return text.replace("{repository}", repository)


def public() -> dict:
    """The public names of the package, as cells write them, with their values."""
    import course_lib
    from course_lib import scenes

    faces = {"cl": course_lib, "scenes": scenes}
    return {
        f"{short}.{name}": getattr(face, name)
        for short, face in faces.items()
        for name in face.__all__
    }
