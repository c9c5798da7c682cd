"""What the overview page says: its titles, drawings and tables as plain data."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from course_lib.grading import grades as states
from course_lib.grading.grades import Grade
from course_lib.grading.report import files, tally, wording

# what was missed stands left, where bars are compared
_SIGNS = {
    states.NOT_YET: "✗",
    states.NOT_STARTED: "○",
    "other": "!",
    states.RIGHT: "✓",
}
_BINS = 17  # of a distribution: so many fit a phone
_WIDE_BINS = 8  # where a bin has two numbers
_HEIGHT = 8  # of its longest bar, in rem
_WIDE = 0.12  # the share of a bar from which on a number fits into it


def content(grades: Sequence[Grade]) -> dict:
    """The variables of the template."""
    columns, people = tally.exercises(grades), tally.learners(grades)
    # what one submission did says nothing about the others
    counts = [count for count in tally.counts(grades) if count.total > 1]
    points = [one for one in tally.points(grades) if len(one.points) > 1]
    return {
        "title": _title(grades),
        "facts": _facts(grades, people),
        "look": [_look(grade) for grade in grades if wording.reason(grade)],
        "missed_title": _missed_title(counts),
        "legend": _legend(counts),
        "bars": list(map(_bar, counts)),
        "plots_title": _points_title(points),
        "plots": list(map(_plot, points)),
        "columns": [
            {"name": wording.line(name), "ids": ids} for name, ids in columns.items()
        ],
        "rows_title": _rows_title(people),
        "rows": _rows(people, columns),
    }


def _many(count, noun):
    return f"{count} {noun}{'s' * (count != 1)}"


def _title(grades):
    points = tally.points(grades)
    if not grades:
        return "Nothing was handed in"
    if not points:
        return f"{_many(len(grades), 'submission')}, none could be graded"
    got = sum(sum(one.points) for one in points)
    most = sum(one.max_points * len(one.points) for one in points)
    share = f"{100 * got / most:.0f} % of the points" if most else "no points to get"
    average = " on average" if len(grades) > 1 else ""
    return f"{_many(len(grades), 'submission')}: {share}{average}"


def _facts(grades, people):
    """Counts that add up to all submissions."""
    scored = sum(map(wording.has_points, grades))
    refused = sum(wording.score(grade) == "refused" for grade in grades)
    failed = len(grades) - scored - refused
    facts = [_many(len(people), "learner"), f"{scored} graded"]
    if refused:
        facts.append(f"{refused} refused")
    if failed:
        facts.append(f"{failed} not graded, because the grader failed")
    if mended := sum(bool(grade.repairs) for grade in grades):
        facts.append(f"{mended} mended (their pages tell what)")
    if several := tally.twice(grades):
        facts.append(f"of several files the best counts: {', '.join(several)}")
    if scored < len(grades):
        facts.append("means are of the graded ones")
    return facts


def _look(grade):
    return {
        "learner": wording.name(grade),
        "page": files.page(grade.learner),
        "notebook": wording.notebook(grade),
        "score": wording.score(grade),
        "why": wording.reason(grade),
        "source": wording.line(grade.source, 300),
    }


def _missed_title(counts):
    if not counts or not counts[0].missed:
        return "No exercise was missed"
    first = counts[0]
    said = f"{first.id} was missed by {first.missed} of {first.total}"
    alone = len(counts) > 1 and counts[1].share < first.share
    return f"{said}, more than any other" if alone else said


def _kinds(count):
    """How many were right, not yet, not started, other."""
    kinds = Counter()
    for outcome, number in count.outcomes.items():
        kinds[wording.kind(outcome)] += number
    return kinds


def _legend(counts):
    seen = sum(map(_kinds, counts), Counter())
    return [
        {"kind": _class(kind), "text": f"{sign} {_said(kind)}"}
        for kind, sign in _SIGNS.items()
        if seen[kind]
    ]


def _class(kind):
    return kind.replace(" ", "-")


def _said(kind):
    return "too slow, crashed or suspect" if kind == "other" else kind


def _bar(count):
    kinds = _kinds(count)
    parts = [
        {
            "kind": _class(kind),
            "mark": sign,
            "count": kinds[kind],
            "text": f"{kinds[kind]} {_said(kind)}",
            "wide": kinds[kind] >= _WIDE * count.total,
        }
        for kind, sign in _SIGNS.items()
        if kinds[kind]
    ]
    return {
        "id": count.id,
        "label": f"{count.id}: {', '.join(part['text'] for part in parts)}",
        "parts": parts,
        "missed": count.missed,
        "total": count.total,
    }


def _points_title(points):
    """The hardest notebook; of a single one where its middle is."""
    if not points:
        return ""
    lowest = min(points, key=lambda one: one.share)
    if len(points) > 1:
        name = wording.line(lowest.notebook)
        return f"{name} has the lowest mean, {100 * lowest.share:.0f} % of its points"
    most = wording.number(lowest.max_points)
    mean, half = f"{lowest.mean:.1f}", wording.number(lowest.median)
    half_of_them = f"half of the {len(lowest.points)} have {half} or more"
    return f"The mean is {mean} of {most} points, and {half_of_them}"


def _plot(one):
    """The distribution of the points of one notebook."""
    most = wording.number(one.max_points)
    bins = _bins(one)
    each = ", ".join(f"{b['name']}: {b['count']}" for b in bins if b["count"])
    return {
        "name": wording.line(one.notebook),
        "label": f"How many have so many points of {most}. {each}",
        "bins": bins,
        "axis": f"points of {most}: mean {one.mean:.1f}, {len(one.points)} graded",
    }


def _bins(one):
    """From 0 points to all, a bin for each or for a few together."""
    last = math.floor(max(one.max_points, *one.points))
    step = 1 if last < _BINS else last // _WIDE_BINS + 1
    counts = Counter(math.floor(points) // step for points in one.points)
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
    count = _many(len(people), "learner")
    return f"{count}, a page for each" if len(people) > 1 else count


def _rows(people, columns):
    """A row for each learner, and one more for each further file of a notebook."""
    rows = []
    for learner, found in people.items():
        by_notebook = tally.notebooks(found)
        tries = [by_notebook.get(notebook, []) for notebook in columns]
        # a learner whose files are of no known notebook has a row, too
        for grades in list(itertools.zip_longest(*tries)) or [()]:
            cells = map(_cell, grades, columns.values())
            rows.append(
                {
                    "learner": wording.name(found[0]),
                    "page": files.page(learner),
                    "look": any(map(wording.reason, found)),
                    "cells": list(cells),
                }
            )
    return rows


def _cell(grade, ids):
    """Points and marks of one notebook; without points a word in their place."""
    score = wording.score(grade) if grade else ""
    if not grade or not wording.has_points(grade):
        return {"score": score, "marks": [], "width": len(ids) + 1}
    outcomes = {task.id: task.outcome for task in grade.tasks}
    return {"score": score, "marks": [_mark(one, outcomes.get(one)) for one in ids]}


def _mark(exercise, outcome):
    if outcome is None:  # this file has no such exercise
        return {"kind": "", "mark": "", "text": exercise}
    return {
        "kind": _class(wording.kind(outcome)),
        "mark": wording.MARKS[outcome],
        "text": f"{exercise} {wording.MEANINGS[outcome]}",
    }
