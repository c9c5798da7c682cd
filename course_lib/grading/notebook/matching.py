"""Which cell of an exercise each cell is that was handed in."""

from course_lib.grading.notebook import cells
from course_lib.grading.notebook.assignment import Assignment
from course_lib.workspace.cell import Cell


def match(handed: list[Cell], assignment: Assignment) -> list[str]:
    """Return the id in `assignment` for each cell; empty for the learner's own cells.

    In this order: by grade_id, by id, by the same source, by a name that an answer has
    to define, and as the rest of the answer above it that somebody split.
    """
    roles = {original.id: original.role for original in assignment.cells}
    places = [_known(cell, assignment.known, roles) for cell in handed]
    for fill in (_by_source, _by_name, _by_indent):
        fill(handed, places, assignment)
    return places


def _known(cell, known, roles):
    for name in (cell.grade_id, cell.id):
        place = known.get(name, "")
        # code in the place of a text is the learner's, and keeps running
        if place and not (cell.is_code and roles[place] == "text"):
            return place
    return ""


def _missing(places, assignment):
    return [cell for cell in assignment.cells if cell.id not in places]


def _by_source(handed, places, assignment):
    lost, checks = {}, {}
    for original in _missing(places, assignment):
        lost.setdefault(original.plain, []).append(original.id)
    for original in assignment.cells:
        if original.role == "check":
            checks[original.plain] = original.id
    for number, cell in enumerate(handed):
        if not places[number] and cell.plain:
            same = lost.get(cell.plain)
            # a check that was copied counts once
            places[number] = same.pop(0) if same else checks.get(cell.plain, "")


def _by_name(handed, places, assignment):
    wanted = {}
    for original in _missing(places, assignment):
        if original.role == "answer":
            for name in cells.defined(original.source):
                wanted.setdefault(name, original.id)
    for number, cell in enumerate(handed):
        if cell.is_code and not places[number]:
            names = cells.defined(cell.source)
            # the first of them: the stub of a later one knows where to look
            places[number] = next((wanted[n] for n in wanted if n in names), "")


def _by_indent(handed, places, assignment):
    answers = {cell.id for cell in assignment.cells if cell.role == "answer"}
    for number, cell in enumerate(handed[1:], 1):
        above = places[number - 1]
        if not places[number] and above in answers and cell.is_code and indented(cell):
            places[number] = above


def indented(cell: Cell) -> bool:
    """Return True if the code of a cell begins inside something."""
    return cell.source.lstrip("\n")[:1] in (" ", "\t")


def joined(pieces: list[Cell]) -> str:
    """Return the sources of a cell that was split, maybe inside a function."""
    whole = pieces[0].source
    for piece in pieces[1:]:
        gap = "\n" if indented(piece) else "\n\n"
        whole = whole.rstrip("\n") + gap + piece.source.lstrip("\n")
    return whole


def anchors(places: list[str], assignment: Assignment) -> list[int]:
    """Return for each cell how many cells of the assignment stand above it.

    Set-up and helper cells that are missing were most likely rewritten where the
    learner's own cells now are, so those come after them.
    """
    numbers = {cell.id: number for number, cell in enumerate(assignment.cells)}
    above, last = [], 0
    for place in places:
        if place:
            last = numbers[place] + 1
        above.append(last if place else _passed(last, places, assignment))
    return above


def _passed(last, places, assignment):
    best = last
    for number in range(last, len(assignment.cells)):
        cell = assignment.cells[number]
        if cell.id in places or cell.role not in ("given", "text"):
            break
        if cell.role == "given":
            best = number + 1
    return best
