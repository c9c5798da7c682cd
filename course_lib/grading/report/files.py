"""Grades as files: JSON for programs, CSV for spreadsheets."""

import csv
import hashlib
import io
import itertools
import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from course_lib.errors import UsageError
from course_lib.grading.grades import Grade
from course_lib.grading.report import summary
from course_lib.workspace.atomic import write_whole

# what a spreadsheet takes for a formula; the wide ones are those of Asian keyboards
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_HEAD = ("learner", "notebook", "points", "max_points", "status", "source")


def as_json(grades: Sequence[Grade]) -> str:
    """Return all grades as JSON, in ASCII; points are null where there are none.

    `grades.from_dict` makes a grade of each of the "submissions" again.
    """
    submissions = [_plain(grade) for grade in grades]
    return json.dumps({"submissions": submissions}, indent=1) + "\n"


def _plain(grade):
    plain = grade.as_dict()
    if not summary.has_points(grade):
        plain["points"] = None
    return plain


def as_csv(grades: Sequence[Grade]) -> str:
    """Return a row per submission, a column per exercise; no cell is a formula."""
    columns = summary.exercises(grades)
    ids = list(dict.fromkeys(itertools.chain(*columns.values())))
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*_HEAD, *map(_cell, ids)])
    writer.writerows(_row(grade, ids) for grade in grades)
    return file.getvalue()


def _row(grade, ids):
    scored = summary.has_points(grade)
    by_id = {task.id: summary.number(task.points) for task in grade.tasks}
    return [
        _cell(grade.learner),
        _cell(grade.notebook),
        summary.number(grade.points) if scored else "",
        summary.number(grade.max_points) if scored else "",
        _cell(grade.status),
        _cell(grade.source),
        *(by_id.get(exercise, "") if scored else "" for exercise in ids),
    ]


def _cell(text):
    """A text that a spreadsheet shows as it is."""
    plain = summary.line(text, 1000)
    visible = plain.lstrip("\u200c\u200d")  # two that some languages need stay in texts
    return f"'{plain}" if visible.startswith(_FORMULA) else plain


def write_json(grades: Sequence[Grade], path: Path) -> None:
    """Write `as_json` to a file. Errors: `UsageError` if that cannot be written."""
    write_text(path, as_json(grades))


def write_csv(grades: Sequence[Grade], path: Path) -> None:
    """Write `as_csv` to a file. Errors: `UsageError` if that cannot be written."""
    # without the mark at the beginning Excel takes UTF-8 for another encoding
    write_text(path, f"\ufeff{as_csv(grades)}")


def write_text(path: Path, text: str) -> None:
    """Write a file that is there whole or as it was before; make its folder.

    Errors: `UsageError` if it cannot be written.
    """
    path, data = Path(path), text.encode(errors="replace")
    try:
        if path.exists() and not path.is_file():  # a pipe, /dev/null: never replaced
            path.write_bytes(data)
        else:
            write_whole(path.resolve(), data)
    except OSError as error:
        raise UsageError(
            f"cannot write {summary.line(str(path), 300)}: {error.strerror or error}."
            " Name a place where you may write and where there is room."
        ) from None


def page_name(learner: str) -> str:
    """Return the file name of a learner's page: safe, and no other learner's."""
    plain = unicodedata.normalize("NFKD", learner).encode("ascii", "ignore").decode()
    slug = re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")[:40]
    code = hashlib.sha256(learner.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug or 'learner'}-{code[:12]}.html"
