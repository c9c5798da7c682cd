"""What a solution notebook must hold before an exercise is made from it."""

import re

from course_lib.workspace.cell import entries, exercise_named, role_named
from course_lib.workspace.notebooks import cells, metadata

SOLUTION_ONLY = "solution-only"  # the tag of cells that no exercise has
_MARKER = re.compile(r"\s*### (BEGIN|END) SOLUTION\s*")
_ALMOST = re.compile(r"\b(begin|end)\W+solution\b", re.IGNORECASE)
_IN_TEXT = re.compile(r"#\s*(begin|end)\W+solution\b", re.IGNORECASE)
_SKIPS = re.compile(r"^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$", re.MULTILINE)
_TAGS = {"raises-exception", "skip-execution", "nbval-skip", "nbval-raises-exception"}
_KEYS = {"schema_version", "grade_id", "grade", "solution", "locked", "task"}
ROLES = {
    "answer": {"grade": False, "solution": True, "locked": False, "task": False},
    "check": {"grade": True, "solution": False, "locked": True, "task": False},
    "": {"grade": False, "solution": False, "task": False},
}


def regions(source: str) -> list[tuple[int, int]]:
    """Return first and last line of each solution region, its markers, from 0 on.

    Errors: `ValueError` with the line of a marker without its partner or misspelled,
    and for a region without code.
    """
    pairs = []
    begin = None
    lines = source.split("\n")
    for number, line in enumerate(lines):
        kind = _kind(line, number)
        here = f"line {number + 1}: ### "
        if kind == "BEGIN" and begin is not None:
            raise ValueError(
                f"{here}BEGIN SOLUTION inside the region that began in line {begin + 1}"
            )
        if kind == "END" and begin is None:
            raise ValueError(f"{here}END SOLUTION with no ### BEGIN SOLUTION before it")
        if kind == "BEGIN":
            begin = number
        elif kind == "END" and begin is not None:
            pairs.append((begin, number))
            begin = None
    if begin is not None:
        raise ValueError(f"line {begin + 1}: no ### END SOLUTION after this marker")
    for first, last in pairs:
        if not count(lines[first : last + 1]):
            raise ValueError(f"line {first + 1}: a solution region without code")
    return pairs


def _kind(line, number):
    """BEGIN, END, or nothing where the line is no marker."""
    marker = _MARKER.fullmatch(line)
    if not marker and _ALMOST.search(line):
        raise ValueError(
            f"line {number + 1}: found {line.strip()!r}; a marker is ### BEGIN SOLUTION"
            " or ### END SOLUTION, alone on its line"
        )
    return marker and marker[1]


def count(lines: list[str]) -> int:
    """Return how many lines are code: neither blank nor a comment alone."""
    return sum(not line.lstrip().startswith("#") for line in lines if line.strip())


def problems(notebook) -> list[str]:
    """Return what is wrong with a solution notebook, a sentence each with its cell."""
    if broken := list(_format(notebook)):  # the rest reads what these keep in order
        return broken
    parsed = list(cells(notebook))
    return [*_frame(notebook), *_cells(parsed), *_order(parsed)]


def _format(notebook):
    """Cell ids, then the schema: nbformat itself repairs ids without a word."""
    import nbformat

    version = notebook.get("nbformat", 0), notebook.get("nbformat_minor", 0)
    if version[0] != 4 or version[1] < 5:
        yield f"nbformat is {version[0]}.{version[1]}, cells have ids from 4.5 on"
        return
    ids = [cell.get("id") for cell in notebook.get("cells", [])]
    for number, name in enumerate(ids):
        if not name:
            yield f"cell number {number + 1}: has no id"
        elif name in ids[:number]:
            yield f"cell {name}: another cell has this id too"
    if all(ids) and len(set(ids)) == len(ids):
        try:
            nbformat.validate(notebook)
        except nbformat.ValidationError as error:
            yield f"{_place(error, ids)}not a valid notebook: {error.message}"


def _place(error, ids):
    """The cell in which a schema error is, as the beginning of a message."""
    path = [*getattr(error, "absolute_path", ())]
    return f"cell {ids[path[1]]}: " if path[:1] == ["cells"] and path[1:] else ""


def _frame(notebook):
    course = entries(metadata(notebook), "course")
    if not isinstance(course.get("stage"), str):
        yield 'metadata: course.stage is missing, as in "04"'
    if not _positive(course.get("seconds")):
        yield "metadata: course.seconds is missing: how long all cells may take"


def _positive(value):
    return type(value) in (int, float) and value > 0


def _cells(parsed):
    for cell in parsed:
        for rule in (_run, _metadata, _text, _answer, _check):
            yield from (f"cell {cell.id}: {text}" for text in rule(cell))


def _run(cell):
    """Nothing may hide from a test run that a cell fails."""
    for tag in sorted(_TAGS & set(cell.tags)):
        yield f"has the tag {tag}: a cell of exercises or solutions runs without error"
    if cell.is_code and _SKIPS.search(cell.source):
        yield "has an NBVAL comment that keeps the cell from being tested"


def _metadata(cell):
    given = cell.metadata.get("nbgrader")
    kind = role_named(cell.id)
    if given is None:
        if kind:
            yield f"is named as {kind} but has no nbgrader metadata"
        return
    keys = _KEYS | ({"points"} if given.get("grade") else set())
    if set(given) != keys:
        different = ", ".join(sorted(set(given) ^ keys))
        yield f"nbgrader's keys are {', '.join(sorted(keys))}; not so here: {different}"
        return
    if given["schema_version"] != 3:
        yield f"nbgrader.schema_version is {given['schema_version']}, not 3"
    if given["grade_id"] != cell.id:
        yield f"nbgrader.grade_id is {given['grade_id']}, not the id of the cell"
    for key, wanted in ROLES[kind].items():
        if given[key] is not wanted:
            name = f"named {kind}-…" if kind else "not named as check-4-1 or answer-4-1"
            yield f"nbgrader.{key} is {given[key]}, in a cell {name} it is {wanted}"


def _text(cell):
    """Only code cells lose their regions: those of a text would be released."""
    if cell.is_code:
        return
    for number, line in enumerate(cell.source.split("\n")):
        if _IN_TEXT.search(line):
            yield (
                f"line {number + 1}: found {line.strip()!r} in a {cell.kind} cell;"
                " a solution region is in a code cell"
            )


def _answer(cell):
    if not cell.is_code:
        if role_named(cell.id) == "answer":
            yield "an answer is a code cell"
        return
    try:
        parts = regions(cell.source)
    except ValueError as error:
        yield str(error)
        return
    if role_named(cell.id) != "answer":
        if parts and SOLUTION_ONLY not in cell.tags:
            yield f"line {parts[0][0] + 1}: a solution region outside an answer cell"
        return
    if not parts:
        yield "an answer without ### BEGIN SOLUTION and ### END SOLUTION"
    if cell.tags:
        yield f"an answer has no tags, found {', '.join(cell.tags)}"


def _check(cell):
    if role_named(cell.id) != "check":
        return
    if not cell.is_code:
        yield "a check is a code cell"
    for key in ("deletable", "editable"):
        if cell.metadata.get(key) is not False:
            yield f"a check has {key}: false in its metadata"
    for key in ("timeout", "minutes"):
        if not _positive(cell.course.get(key)):
            yield f"a check has course.{key} in its metadata, a number above 0"
    points = cell.grader.get("points")
    if points != 0 and not _positive(points):
        yield "a check has points, 0 or more"
    if SOLUTION_ONLY in cell.tags:
        yield f"a check cannot be {SOLUTION_ONLY}"


def _order(parsed):
    """Every check comes after the answers that it checks."""
    answers = [cell for cell in parsed if role_named(cell.id) == "answer"]
    for number, check in enumerate(parsed):
        if role_named(check.id) != "check":
            continue
        exercise = exercise_named(check.id)
        same = [cell for cell in answers if exercise_named(cell.id) == exercise]
        if not same:
            yield f"cell {check.id}: exercise {exercise} has no answer cell"
        for answer in same:
            if answer in parsed[number:]:
                yield f"cell {check.id}: {answer.id} comes after its check"
