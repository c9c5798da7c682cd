"""One notebook to run: cells and order of the exercise, with the learner's code."""

import copy
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course_lib.grading.notebook import cells, matching
from course_lib.grading.notebook.assignment import Assignment, role

_NOTES = 30  # repairs that a report shows


@dataclass(frozen=True)
class Merged:
    """The cells to run, what was repaired, and the ids of the learner's cells."""

    cells: list[dict]
    repairs: list[str]
    learners: set[str]
    assignment: Assignment

    def notebook(
        self, more: Sequence[dict] = (), *, replaced: Mapping[str, str] | None = None
    ) -> dict:
        """The notebook to run, with `more` cells at its end.

        `replaced` has, for the id of a cell that must not run again, the sentence with
        which that cell raises instead.
        """
        whole, sentences = copy.deepcopy([*self.cells, *more]), replaced or {}
        for cell in whole:
            if cell["id"] in sentences:
                cell["source"] = f"raise RuntimeError({sentences[cell['id']]!r})"
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
        about = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata}
        return {**about, "cells": whole}


def merge_answers(notebook: dict, assignment: Assignment) -> Merged:
    """The exercise with the learner's code in it, from what `parse` gives.

    Checks, locked cells, texts and the order are those of the exercise. An answer is
    the learner's, wherever it stands and in how many cells; of several attempts at it
    the last one above its check counts. A set-up cell that was changed runs as it was
    given and then as the learner has it. Other code of the learner stays below the cell
    that it followed.
    """
    handed = cells.tidy(notebook)
    merger = _Merger(handed, assignment)
    lost = len(notebook["cells"]) - len(handed)
    if lost:
        merger.note(f"{lost} damaged cell{'s' * (lost > 1)} left out")
    merger.note_moved()
    merger.run()
    more = len(merger.repairs) - _NOTES
    repairs = merger.repairs[:_NOTES] + [f"and {more} more"] * (more > 0)
    return Merged(merger.cells, repairs, merger.learners, assignment)


class _Merger:
    """Goes through the cells of the exercise, and notes what it mends."""

    def __init__(self, handed, assignment):
        self.handed, self.assignment = handed, assignment
        self.places = matching.match(handed, assignment)
        self.cells, self.repairs, self.learners = [], [], set()
        self.extras, self.note = 0, self.repairs.append
        self.checks = {check.cell for check in assignment.checks}

    def note_moved(self):
        """Note each cell that is not in the longest run of cells in order."""
        order = [cell["id"] for cell in self.assignment.cells if role(cell) != "text"]
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

    def run(self):
        anchors = matching.anchors(self.places, self.assignment)
        self._extras(anchors, 0)
        fill = {"answer": self._answer, "given": self._given, "text": self._text}
        for number, original in enumerate(self.assignment.cells, 1):
            pairs = zip(self.handed, self.places)
            copies = [cell for cell, place in pairs if place == original["id"]]
            fill.get(role(original), self._locked)(copy.deepcopy(original), copies)
            self._extras(anchors, number)

    def _extras(self, anchors, number):
        for cell, place, anchor in zip(self.handed, self.places, anchors):
            if anchor == number and not place and cell.code and cell.source.strip():
                self.extras += 1
                self._own(f"extra-{self.extras}", cell.source)

    def _own(self, name, source):
        new = {"cell_type": "code", "id": name, "metadata": {}, "source": ""}
        new |= {"outputs": [], "execution_count": None}
        self._learners(new, source)

    def _learners(self, new, source):
        """Add a cell with the learner's code."""
        name, new["source"] = new["id"], cells.neutral(source)
        if new["source"] != source:
            self.note(f"{name} had NBVAL comments: they have no effect here")
        if "\ufffd" in source:
            self.note(f"{name} had characters that no file can hold: replaced")
        self.learners.add(name)
        self.cells.append(new)

    def _text(self, original, copies):
        self.cells.append(original)

    def _locked(self, original, copies):
        name, text = original["id"], cells.plain(original["source"])
        if not copies:
            self.note(f"{name} was missing: the original ran")
        elif len(copies) > 1:
            self.note(f"{name} was there {len(copies)} times: the original ran once")
        elif not copies[0].code:
            self.note(f"{name} was turned into text: the original ran")
        elif cells.plain(copies[0].source) != text:
            self.note(f"{name} was changed: the original ran")
        self.cells.append(original)

    def _given(self, original, copies):
        name, text = original["id"], cells.plain(original["source"])
        self.cells.append(original)
        code = [cell for cell in copies if cell.code and cell.source.strip()]
        changed = [cell for cell in code if cells.plain(cell.source) != text]
        if not code and text:
            self.note(f"{name} was missing: the original ran")
        elif changed:
            self.note(f"{name} was changed: the original ran, then yours")
            self._own(f"own-{name}", matching.joined(changed))

    def _answer(self, original, copies):
        name, stub = original["id"], cells.plain(original["source"])
        written = [cell for cell in copies if cell.source.strip()]
        code = [cell for cell in written if cell.code] or written
        pieces = [cell for cell in code if cells.plain(cell.source) != stub]
        if len({cells.plain(cell.source) for cell in pieces}) == 1:
            pieces = pieces[:1]
        whole = [cell for cell in pieces if _holds(cell.source, original)]
        if not code:
            self._absent(original, "empty" if copies else "missing")
        elif not pieces:
            self.cells.append(original)
        elif len(whole) > 1:
            self._several(original, pieces, whole)
        else:
            self._note_answer(name, pieces)
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
                self._own(f"own-{original['id']}-{number}", cell.source)
        which = "above its check" if late else "of them"
        times = f"{len(whole)} times: the last {which} counts"
        self.note(f"{original['id']} was there {times}")

    def _first_check(self, original):
        """How many cells were handed in above the first check of an answer."""
        for number, place in enumerate(self.places):
            answers = self.assignment.answers(place) if place in self.checks else []
            if original["id"] in [answer["id"] for answer in answers]:
                return number
        return len(self.places)

    def _note_answer(self, name, pieces):
        first = pieces[0]
        if not first.code:
            self.note(f"{name} was turned into text: it is code again")
        if not any(self.assignment.known.get(n) == name for n in first.names):
            self.note(f"{name} had lost its id: found by the name that it defines")
        if len(pieces) > 1:
            self.note(f"{name} was in {len(pieces)} cells: joined")

    def _absent(self, original, how):
        """The stub, unless the answer stands in a cell above or in a check."""
        name = original["id"]
        theirs = [cell for cell in self.cells if cell["id"] in self.learners]
        above = [cell["id"] for cell in theirs if _holds(cell["source"], original)]
        place, code = (above[0], "") if above else self._in_check(original)
        instead = f"found in {place}" if place else "its stub ran"
        self.note(f"{name} was {how}: {instead}")
        if code:
            self._learners(original, code)
            return
        if above:  # the stub would undo it
            original["source"] = f"# this answer is in the cell {place}"
        self.cells.append(original)

    def _in_check(self, original):
        """The check with which an answer was merged by accident, and the answer."""
        for cell, place in zip(self.handed, self.places):
            if cell.code and place in self.checks and _holds(cell.source, original):
                names = cells.defined(original["source"])
                return place, cells.beginning_with(names, cell.source)
        return "", ""


def _holds(source, original):
    """True if a source defines all that an answer has to."""
    wanted = {*cells.defined(original["source"])}
    return bool(wanted) and wanted <= {*cells.defined(source)}
