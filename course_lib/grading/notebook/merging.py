"""One notebook to run: cells and order of the exercise, with the learner's code."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from course_lib.grading.notebook import cells, matching
from course_lib.grading.notebook.assignment import Assignment
from course_lib.grading.notebook.cells import Handed
from course_lib.text import many
from course_lib.workspace.cell import Cell

_NOTES = 30  # repairs that a report shows


@dataclass(frozen=True)
class Merged:
    """The cells to run, what was repaired, and the ids of the learner's cells."""

    cells: list[Cell]
    repairs: list[str]
    learners: set[str]
    assignment: Assignment

    def notebook(
        self, more: Sequence[Cell] = (), *, replaced: Mapping[str, str] | None = None
    ) -> dict:
        """Return the notebook to run, with `more` cells at its end.

        `replaced` has, for the id of a cell that must not run again, the sentence with
        which that cell raises instead.
        """
        whole = [_as_file(cell) for cell in (*self.cells, *more)]
        for cell in whole:
            if replaced and cell["id"] in replaced:
                cell["source"] = f"raise RuntimeError({replaced[cell['id']]!r})"
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
        about = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata}
        return {**about, "cells": whole}


def _as_file(cell):
    """A cell as a file holds it, before it has run."""
    file = {"cell_type": cell.kind, "id": cell.id, "metadata": cell.metadata}
    outputs = {"outputs": [], "execution_count": None} if cell.is_code else {}
    return {**file, "source": cell.source, **outputs}


def merge_answers(notebook: Handed, assignment: Assignment) -> Merged:
    """Return the exercise with the learner's code in it.

    Checks, locked cells, texts and the order are those of the exercise. An answer is
    the learner's, wherever it stands and in how many cells; of several attempts at it
    the last one above its check counts. A set-up cell that was changed runs as it was
    given and then as the learner has it. Other code of the learner stays below the cell
    that it followed.
    """
    merger = _Merger(notebook.cells, assignment)
    if notebook.damaged:
        merger.note(f"{many(notebook.damaged, 'damaged cell')} left out")
    merger.note_moved()
    merger.fill()
    repairs = merger.repairs[:_NOTES]
    if len(merger.repairs) > _NOTES:
        repairs.append(f"and {len(merger.repairs) - _NOTES} more")
    return Merged(merger.cells, repairs, merger.learners, assignment)


class _Merger:
    """Goes through the cells of the exercise, and notes what it mends."""

    def __init__(self, handed, assignment):
        self.handed = handed
        self.assignment = assignment
        self.places = matching.match(handed, assignment)
        self.answers = {check.cell: check.answers for check in assignment.checks}
        self.cells: list[Cell] = []
        self.repairs: list[str] = []
        self.learners: set[str] = set()
        self.extras = 0  # cells that are the learner's alone

    def note(self, repair):
        """Keep a sentence on what was mended."""
        self.repairs.append(repair)

    def note_moved(self):
        """Note each cell that is not in the longest run of cells in order."""
        order = [cell.id for cell in self.assignment.cells if cell.role != "text"]
        placed = [place for place in dict.fromkeys(self.places) if place in order]
        here = [name for name in order if name in placed]
        matcher = difflib.SequenceMatcher(None, here, placed, autojunk=False)
        in_order = {
            name
            for block in matcher.get_matching_blocks()
            for name in here[block.a : block.a + block.size]
        }
        for name in here:
            if name not in in_order:
                self.note(f"{name} was moved: put back in its place")

    def fill(self):
        """Go through the exercise, and take what the learner has for each cell."""
        anchors = matching.anchors(self.places, self.assignment)
        self._extras(anchors, 0)
        ways = {"answer": self._answer, "given": self._given, "text": self._text}
        for number, original in enumerate(self.assignment.cells, 1):
            pairs = zip(self.handed, self.places)
            copies = [cell for cell, place in pairs if place == original.id]
            ways.get(original.role, self._locked)(original, copies)
            self._extras(anchors, number)

    def _extras(self, anchors, number):
        for cell, place, anchor in zip(self.handed, self.places, anchors):
            if anchor == number and not place and cell.is_code and cell.plain:
                self.extras += 1
                self._own(f"extra-{self.extras}", cell.source)

    def _own(self, name, source):
        self._learners(Cell(name, "code", "", {}), source)

    def _learners(self, cell, source):
        """Add a cell with the learner's code."""
        neutral = cells.neutral(source)
        if neutral != source:
            self.note(f"{cell.id} had NBVAL comments: they have no effect here")
        if "\ufffd" in source:
            self.note(f"{cell.id} had characters that no file can hold: replaced")
        self.learners.add(cell.id)
        self.cells.append(replace(cell, source=neutral))

    def _text(self, original, copies):
        self.cells.append(original)

    def _locked(self, original, copies):
        name = original.id
        if not copies:
            self.note(f"{name} was missing: the original ran")
        elif len(copies) > 1:
            self.note(f"{name} was there {len(copies)} times: the original ran once")
        elif not copies[0].is_code:
            self.note(f"{name} was turned into text: the original ran")
        elif copies[0].plain != original.plain:
            self.note(f"{name} was changed: the original ran")
        self.cells.append(original)

    def _given(self, original, copies):
        name = original.id
        self.cells.append(original)
        code = [cell for cell in copies if cell.is_code and cell.plain]
        changed = [cell for cell in code if cell.plain != original.plain]
        if not code and original.plain:
            self.note(f"{name} was missing: the original ran")
        elif changed:
            self.note(f"{name} was changed: the original ran, then yours")
            self._own(f"own-{name}", matching.joined(changed))

    def _answer(self, original, copies):
        written = [cell for cell in copies if cell.plain]
        code = [cell for cell in written if cell.is_code] or written
        pieces = [cell for cell in code if cell.plain != original.plain]
        if len({cell.plain for cell in pieces}) == 1:
            pieces = pieces[:1]
        whole = [cell for cell in pieces if _holds(cell.source, original)]
        if not code:
            self._absent(original, "empty" if copies else "missing")
        elif not pieces:
            self.cells.append(original)
        elif len(whole) > 1:
            self._several(original, pieces, whole)
        else:
            self._note_answer(original.id, pieces)
            self._learners(original, matching.joined(pieces))

    def _several(self, original, pieces, whole):
        """Several attempts: each runs in a cell of its own, as it does in Jupyter.

        What counts is the last one above the check; those below it come too late.
        """
        # by identity: without ids two copies are equal wherever they stand
        below = {id(cell) for cell in self.handed[self._first_check(original) :]}
        above = [cell for cell in whole if id(cell) not in below]
        late = below & set(map(id, whole)) if above else set()
        last = (above or whole)[-1]
        for number, cell in enumerate(pieces, 1):
            if cell is last:
                self._learners(original, cell.source)
            elif id(cell) not in late:
                self._own(f"own-{original.id}-{number}", cell.source)
        which = "above its check" if late else "of them"
        times = f"{len(whole)} times: the last {which} counts"
        self.note(f"{original.id} was there {times}")

    def _first_check(self, original):
        """How many cells were handed in above the first check of an answer."""
        for number, place in enumerate(self.places):
            if original in self.answers.get(place, ()):
                return number
        return len(self.places)

    def _note_answer(self, name, pieces):
        first = pieces[0]
        if not first.is_code:
            self.note(f"{name} was turned into text: it is code again")
        if name not in map(self.assignment.known.get, (first.grade_id, first.id)):
            self.note(f"{name} had lost its id: found by the name that it defines")
        if len(pieces) > 1:
            self.note(f"{name} was in {len(pieces)} cells: joined")

    def _absent(self, original, how):
        """The stub, unless the answer stands in a cell above or in a check."""
        name = original.id
        theirs = [cell for cell in self.cells if cell.id in self.learners]
        above = [cell.id for cell in theirs if _holds(cell.source, original)]
        found = [] if above else self._in_checks(original)
        if above:  # the stub would undo it
            self.note(f"{name} was {how}: found in {above[0]}")
            pointer = f"# this answer is in the cell {above[0]}"
            self.cells.append(replace(original, source=pointer))
        elif found:
            check, source = found[0]
            self.note(f"{name} was {how}: found in {check}")
            names = cells.defined(original.source)
            self._learners(original, cells.beginning_with(names, source))
        else:
            self.note(f"{name} was {how}: its stub ran")
            self.cells.append(original)

    def _in_checks(self, original):
        """The checks with which an answer was merged by accident, and their sources."""
        return [
            (place, cell.source)
            for cell, place in zip(self.handed, self.places)
            if cell.is_code and place in self.answers and _holds(cell.source, original)
        ]


def _holds(source, original):
    """True if a source defines all that an answer has to."""
    wanted = {*cells.defined(original.source)}
    return bool(wanted) and wanted <= {*cells.defined(source)}
