"""Grades as pages of HTML: an overview to look at together, one page per learner."""

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import jinja2

from course_lib.errors import UsageError
from course_lib.grading.grades import NOT_STARTED, NOT_YET, RIGHT, Grade
from course_lib.grading.report import files, summary
from course_lib.text import many

_PAGE = re.compile(r"[a-z0-9-]+-[0-9a-f]{12}\.html")
_OTHER = "other"  # the rare outcomes, drawn together
# what was missed stands left, where bars are compared
_SIGNS = {NOT_YET: "✗", NOT_STARTED: "○", _OTHER: "!", RIGHT: "✓"}
_BINS = 17  # of a distribution: so many fit a phone
_WIDE_BINS = 8  # where a bin has two numbers
_HEIGHT = 8  # of its longest bar, in rem
_WIDE = 0.12  # the share of a bar from which on a number fits into it


def write_pages(grades: Sequence[Grade], folder: Path) -> Path:
    """Write index.html, whose path comes back, and a page for each learner.

    Pages that an earlier run left there for nobody are removed, other files stay.

    Errors: `UsageError` if a file cannot be written, or index.html is another's.
    """
    folder = Path(folder)
    index = folder / "index.html"
    if os.path.lexists(index) and not _is_ours(index):
        raise UsageError(
            f"cannot write {summary.line(str(index), 300)}: there is a page that is not"
            " of grades, and it was kept. Name another folder."
        )
    pages = {
        files.page_name(learner): _learner(group)
        for learner, group in summary.learners(grades).items()
    }
    for name, text in pages.items():
        files.write_text(folder / name, text)
    template = _templates.get_template("overview.html")
    files.write_text(index, template.render(overview(grades)))
    for path in folder.glob("*.html"):
        if _PAGE.fullmatch(path.name) and path.name not in pages and _is_ours(path):
            path.unlink(missing_ok=True)
    return index


def _is_ours(path):
    assert _templates.loader is not None
    head, _, _ = _templates.loader.get_source(_templates, "head.html")
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(head.encode())) == head.encode()
    except OSError:
        return False


def _learner(grades):
    """The page of one learner; nothing of others is in it."""
    name, total = summary.learner_name(grades[0]), summary.total_points(grades)
    return _templates.get_template("learner.html").render(
        title=f"{name}: {total}", learner=name, total=total, grades=grades
    )


def _blocks(text):
    """Prose, which is wrapped, and code (True), whose lines keep their blanks."""
    groups = itertools.groupby(text.split("\n"), lambda line: line.startswith(" "))
    parts = [(is_code, "\n".join(lines).strip("\n")) for is_code, lines in groups]
    return [(is_code, part) for is_code, part in parts if part.strip()]


def _kind(outcome):
    return outcome if outcome in _SIGNS else _OTHER


def _css_class(outcome):
    return _kind(outcome).replace(" ", "-")


_templates = jinja2.Environment(
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    loader=jinja2.PackageLoader("course_lib.grading.report"),
)
_templates.globals |= {"files": files, "summary": summary}
_templates.globals |= {"blocks": _blocks, "css_class": _css_class}


def overview(grades: Sequence[Grade]) -> dict:
    """Return the variables of the template overview.html."""
    columns, people = summary.exercises(grades), summary.learners(grades)
    # what one submission did says nothing about the others
    counts = [count for count in summary.counts(grades) if count.total > 1]
    points = [points for points in summary.points(grades) if len(points.points) > 1]
    return {
        "title": _title(grades),
        "facts": _facts(grades, people),
        "look": list(filter(summary.reason, grades)),
        "missed_title": _missed_title(counts),
        "legend": _parts(sum(map(_kinds, counts), Counter())),
        "bars": list(map(_bar, counts)),
        "plots_title": _points_title(points),
        "plots": list(map(_plot, points)),
        "columns": columns,
        "rows_title": _rows_title(people),
        "rows": _rows(people, columns),
    }


def _title(grades):
    submissions, points = many(len(grades), "submission"), summary.points(grades)
    if not grades:
        return "Nothing was handed in"
    if not points:
        return f"{submissions}, none could be graded"
    got = sum(sum(notebook.points) for notebook in points)
    most = sum(notebook.max_points * len(notebook.points) for notebook in points)
    share = f"{100 * got / most:.0f} % of the points" if most else "no points to get"
    average = " on average" if len(grades) > 1 else ""
    return f"{submissions}: {share}{average}"


def _facts(grades, people):
    """Counts that add up to all submissions."""
    scored = sum(map(summary.has_points, grades))
    refused = sum(summary.score(grade) == "refused" for grade in grades)
    failed = len(grades) - scored - refused
    facts = [many(len(people), "learner"), f"{scored} graded"]
    if refused:
        facts.append(f"{refused} refused")
    if failed:
        facts.append(f"{failed} not graded, because the grader failed")
    if mended := sum(bool(grade.repairs) for grade in grades):
        facts.append(f"{mended} mended (their pages tell what)")
    if several := summary.twice(grades):
        facts.append(f"of several files the best counts: {', '.join(several)}")
    if scored < len(grades):
        facts.append("means are of the graded ones")
    return facts


def _missed_title(counts):
    if not counts or not counts[0].missed:
        return "No exercise was missed"
    first = counts[0]
    text = f"{first.id} was missed by {first.missed} of {first.total}"
    alone = len(counts) > 1 and counts[1].share < first.share
    return f"{text}, more than any other" if alone else text


def _kinds(count):
    """How many were right, not yet, not started, other."""
    kinds = Counter()
    for outcome, number in count.outcomes.items():
        kinds[_kind(outcome)] += number
    return kinds


def _parts(kinds):
    """The kinds that occur, in the order in which they are drawn."""
    words = {kind: kind for kind in _SIGNS}
    words[_OTHER] = "too slow, crashed or suspect"
    return [
        {"kind": kind, "mark": mark, "count": kinds[kind], "words": words[kind]}
        for kind, mark in _SIGNS.items()
        if kinds[kind]
    ]


def _bar(count):
    parts = _parts(_kinds(count))
    for part in parts:
        part["wide"] = part["count"] >= _WIDE * count.total
    texts = [f"{part['count']} {part['words']}" for part in parts]
    return {
        "id": count.id,
        "label": f"{count.id}: {', '.join(texts)}",
        "parts": parts,
        "missed": count.missed,
        "total": count.total,
    }


def _points_title(notebooks):
    """The hardest notebook; of a single one where its middle is."""
    if not notebooks:
        return ""
    lowest = min(notebooks, key=lambda points: points.share)
    if len(notebooks) > 1:
        name = summary.line(lowest.notebook)
        return f"{name} has the lowest mean, {100 * lowest.share:.0f} % of its points"
    most = summary.number(lowest.max_points)
    mean, half = f"{lowest.mean:.1f}", summary.number(lowest.median)
    half_of_them = f"half of the {len(lowest.points)} have {half} or more"
    return f"The mean is {mean} of {most} points, and {half_of_them}"


def _plot(points):
    """The distribution of the points of one notebook."""
    most = summary.number(points.max_points)
    bins = _bins(points)
    filled = [f"{bin['name']}: {bin['count']}" for bin in bins if bin["count"]]
    return {
        "name": summary.line(points.notebook),
        "label": f"How many have so many points of {most}. {', '.join(filled)}",
        "bins": bins,
        "axis": f"points of {most}: mean {points.mean:.1f},"
        f" {len(points.points)} graded",
    }


def _bins(points):
    """From 0 points to all, a bin for each or for a few together."""
    last = math.floor(max(points.max_points, *points.points))
    step = 1 if last < _BINS else last // _WIDE_BINS + 1
    counts = Counter(math.floor(number) // step for number in points.points)
    tallest = max(counts.values())
    return [
        {
            "name": _range(low, min(low + step - 1, last)),
            "count": counts[low // step],
            "height": round(_HEIGHT * counts[low // step] / tallest, 2),
        }
        for low in range(0, last + 1, step)
    ]


def _range(low, high):
    return f"{low}–{high}" if high > low else str(low)


def _rows_title(people):
    count = many(len(people), "learner")
    return f"{count}, a page for each" if len(people) > 1 else count


def _rows(people, columns):
    """A row for each learner, and one more for each further file of a notebook."""
    rows = []
    for learner, grades in people.items():
        by_notebook = summary.notebooks(grades)
        tries = [by_notebook.get(notebook, []) for notebook in columns]
        # a learner whose files are of no known notebook has a row, too
        for row in list(itertools.zip_longest(*tries)) or [()]:
            rows.append(
                {
                    "learner": summary.learner_name(grades[0]),
                    "page": files.page_name(learner),
                    "look": any(map(summary.reason, grades)),
                    "cells": list(map(_cell, row, columns.values())),
                }
            )
    return rows


def _cell(grade, ids):
    """Points and marks of one notebook; without points a word in their place."""
    score = summary.score(grade) if grade else ""
    if not grade or not summary.has_points(grade):
        return {"score": score, "marks": [], "width": len(ids) + 1}
    outcomes = {task.id: task.outcome for task in grade.tasks}
    marks = [_mark(exercise, outcomes.get(exercise)) for exercise in ids]
    return {"score": score, "marks": marks}


def _mark(exercise, outcome):
    if outcome is None:  # this file has no such exercise
        return {"kind": "", "mark": "", "words": exercise}
    return {
        "kind": _css_class(outcome),
        "mark": summary.MARKS[outcome],
        "words": f"{exercise} {summary.MEANINGS[outcome]}",
    }
