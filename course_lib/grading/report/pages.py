"""Grades as pages of HTML: an overview to look at together, one page per learner."""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2

from course_lib.errors import UsageError
from course_lib.grading.grades import Grade
from course_lib.grading.report import files, overview, style, tally, template, wording

_PAGE = re.compile(r"[a-z0-9-]+-[0-9a-f]{12}\.html")

_templates = jinja2.Environment(
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    loader=jinja2.DictLoader(
        {
            "base": template.BASE,
            "style": style.STYLE,
            "overview": template.OVERVIEW,
            "learner": template.LEARNER,
        }
    ),
)


def write_pages(grades: Sequence[Grade], folder: Path) -> Path:
    """Write index.html, whose path comes back, and a page for each learner.

    Pages that an earlier run left there for nobody are removed, other files stay.

    Errors: `UsageError` if a file cannot be written, or index.html is another's.
    """
    folder = Path(folder)
    index = folder / "index.html"
    if os.path.lexists(index) and not _is_ours(index):
        raise UsageError(
            f"cannot write {wording.line(str(index), 300)}: there is a page that is not"
            " of grades, and it was kept. Name another folder."
        )
    pages = {
        files.page(learner): _learner(learner, found)
        for learner, found in tally.learners(grades).items()
    }
    for name, text in pages.items():
        files.write(folder / name, text)
    seen = _templates.get_template("overview").render(overview.content(grades))
    files.write(index, seen)
    for path in folder.glob("*.html"):
        if _PAGE.fullmatch(path.name) and path.name not in pages and _is_ours(path):
            path.unlink(missing_ok=True)
    return index


def _is_ours(path):
    marker = template.MARKER.encode()
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(marker)) == marker
    except OSError:
        return False


def _learner(learner, found):
    """The page of one learner; nothing of others is in it."""
    total = tally.total(found)
    return _templates.get_template("learner").render(
        title=f"{wording.name(found[0])}: {total}",
        learner=wording.name(found[0]),
        total=total,
        notebooks=list(map(_notebook, found)),
        noted=wording.NOTED,
    )


def _notebook(grade):
    unit = " points" if wording.has_points(grade) else ""
    return {
        "name": wording.notebook(grade),
        "score": f"{wording.score(grade)}{unit}",
        "source": wording.line(grade.source, 300),
        "why": wording.reason(grade),
        "tasks": list(map(_task, grade.tasks)) if unit else [],
        "repairs": [wording.line(repair, 300) for repair in grade.repairs],
    }


def _task(task):
    return {
        "id": task.id,
        "kind": wording.kind(task.outcome).replace(" ", "-"),
        "mark": wording.MARKS[task.outcome],
        "outcome": wording.MEANINGS[task.outcome],
        "amount": wording.amount(task),
        "blocks": _blocks(wording.sentence(task)),
        "hint": _blocks(wording.hint(task)),
    }


def _blocks(text):
    """Prose, which is wrapped, and lines of code, which keep their blanks."""
    groups = itertools.groupby(text.split("\n"), lambda line: line.startswith(" "))
    parts = [(code, "\n".join(lines).strip("\n")) for code, lines in groups]
    return [{"code": code, "text": text} for code, text in parts if text.strip()]
