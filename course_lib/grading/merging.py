"""One notebook to run: cells and order of the exercise, with the learner's code."""

import builtins
import copy
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from course_lib.grading import cells, matching
from course_lib.grading.assignment import Assignment, role
from course_lib.grading.cells import parse

__all__ = ["Merged", "canaries", "merge", "notebook", "parse"]

_NOTES = 30  # repairs that a report shows


@dataclass(frozen=True)
class Merged:
    """The cells to run, what was repaired, and the ids of the learner's cells."""

    cells: list[dict]
    repairs: list[str]
    learners: set[str]
    assignment: Assignment


def merge(notebook: dict, assignment: Assignment) -> Merged:
    """The exercise with the learner's code in it, from what `parse` gives.

    Checks, locked cells, texts and the order are those of the exercise. An answer is
    the learner's, wherever it stands and in how many cells. A set-up cell that was
    changed runs as it was given and then as the learner has it. Other code of the
    learner stays below the cell that it followed.
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

    def note_moved(self):
        """Note each cell that is not in the longest run of cells in order."""
        order = [own["id"] for own in self.assignment.cells if role(own) != "text"]
        found = [place for place in dict.fromkeys(self.places) if place in order]
        here = [name for name in order if name in found]
        matcher = difflib.SequenceMatcher(None, here, found, autojunk=False)
        kept = {
            name
            for block in matcher.get_matching_blocks()
            for name in here[block.a : block.a + block.size]
        }
        for name in here:
            if name not in kept:
                self.note(f"{name} was moved: put back in its place")

    def run(self):
        anchors = matching.anchors(self.places, self.assignment)
        self._extras(anchors, 0)
        fill = {"answer": self._answer, "given": self._given, "text": self._text}
        for number, own in enumerate(self.assignment.cells, 1):
            pairs = zip(self.handed, self.places)
            mine = [cell for cell, place in pairs if place == own["id"]]
            fill.get(role(own), self._locked)(copy.deepcopy(own), mine)
            self._extras(anchors, number)

    def _extras(self, anchors, number):
        for cell, place, anchor in zip(self.handed, self.places, anchors):
            if anchor == number and not place and cell.code and cell.source.strip():
                self.extras += 1
                self._own(f"extra-{self.extras}", cell.source)

    def _own(self, name, source):
        made = {"cell_type": "code", "id": name, "metadata": {}, "source": ""}
        made |= {"outputs": [], "execution_count": None}
        self._learners(made, source)

    def _learners(self, made, source):
        """Add a cell with the learner's code."""
        name, made["source"] = made["id"], cells.neutral(source)
        if made["source"] != source:
            self.note(f"{name} had NBVAL comments: they have no effect here")
        if "\ufffd" in source:
            self.note(f"{name} had characters that no file can hold: replaced")
        self.learners.add(name)
        self.cells.append(made)

    def _text(self, own, mine):
        self.cells.append(own)

    def _locked(self, own, mine):
        name, text = own["id"], cells.plain(own["source"])
        if not mine:
            self.note(f"{name} was missing: the original ran")
        elif len(mine) > 1:
            self.note(f"{name} was there {len(mine)} times: the original ran once")
        elif not mine[0].code:
            self.note(f"{name} was turned into text: the original ran")
        elif cells.plain(mine[0].source) != text:
            self.note(f"{name} was changed: the original ran")
        self.cells.append(own)

    def _given(self, own, mine):
        name, text = own["id"], cells.plain(own["source"])
        self.cells.append(own)
        code = [cell for cell in mine if cell.code and cell.source.strip()]
        changed = [cell for cell in code if cells.plain(cell.source) != text]
        if not code and text:
            self.note(f"{name} was missing: the original ran")
        elif changed:
            self.note(f"{name} was changed: the original ran, then yours")
            self._own(f"own-{name}", matching.joined(changed))

    def _answer(self, own, mine):
        name, stub = own["id"], cells.plain(own["source"])
        written = [cell for cell in mine if cell.source.strip()]
        code = [cell for cell in written if cell.code] or written
        pieces = [cell for cell in code if cells.plain(cell.source) != stub]
        if len({cells.plain(cell.source) for cell in pieces}) == 1:
            pieces = pieces[:1]
        if not code:
            self._absent(own, "empty" if mine else "missing")
        elif not pieces:
            self.cells.append(own)
        else:
            self._note_answer(name, pieces)
            self._learners(own, matching.joined(pieces))

    def _note_answer(self, name, pieces):
        first = pieces[0]
        if not first.code:
            self.note(f"{name} was turned into text: it is code again")
        if not any(self.assignment.known.get(n) == name for n in first.names):
            self.note(f"{name} had lost its id: found by the name that it defines")
        if len(pieces) > 1:
            self.note(f"{name} was in {len(pieces)} cells: joined")

    def _absent(self, own, how):
        """The stub, unless it would undo an answer that stands in a cell above."""
        wanted = {*cells.defined(own["source"])}
        theirs = (cell for cell in self.cells if cell["id"] in self.learners)
        for cell in theirs if wanted else ():
            if wanted <= {*cells.defined(cell["source"])}:
                own["source"] = f"# this answer is in the cell {cell['id']}"
                self.note(f"{own['id']} was {how}: found in {cell['id']}")
                break
        else:
            self.note(f"{own['id']} was {how}: its stub ran")
        self.cells.append(own)


def canaries(merged: Merged) -> list[dict]:
    """Each check once more, below the stubs of its answers: it must fail there."""
    by_id = {cell["id"]: cell for cell in merged.assignment.cells}
    forget, made, taken = _forget(merged), [], set()
    for check in merged.assignment.checks:
        for answer in merged.assignment.answers(check.cell):
            name = cells.free(f"stub-{answer['id']}", taken)
            taken.add(name)
            stub = _bare(answer) | {"id": name}
            if not _complete(stub["source"]):
                stub["source"] = forget + stub["source"]
            made.append(stub)
        made.append(_bare(by_id[check.cell]) | {"id": f"canary-{check.cell}"})
    return made


def _complete(stub):
    """True if a stub takes the place of all that its answer defined.

    One that raises before it defines a name does not; a cell of another language,
    which begins with %%, is none of Python's.
    """
    raises = re.search(r"^raise\b", stub, re.MULTILINE)
    return stub.startswith("%%") or bool(cells.defined(stub) and not raises)


def _bare(cell):
    """A copy that no other grader takes for the cell itself."""
    made = copy.deepcopy(cell)
    made["metadata"].pop("nbgrader", None)
    return made


def _forget(merged):
    """Code that drops the learner's names, and leaves what the exercise gives.

    Whoever replaced a given function or module is to be found out.
    """
    given, names = {*dir(builtins)}, set()
    for cell in merged.assignment.cells:
        if role(cell) in ("given", "locked", "check"):
            given |= {*cells.imported(cell["source"])}
    for cell in merged.cells:
        if cell["id"] in merged.learners:
            names |= {*cells.defined(cell["source"], nested=True)}
    return f"[globals().pop(name, None) for name in {sorted(names - given)}];\n"


def notebook(
    merged: Merged, *, canary: bool = False, replaced: Mapping[str, str] | None = None
) -> dict:
    """The notebook to run, with the canaries at its end if they are wanted.

    `replaced` has, for the id of a cell that must not run again, the sentence with
    which that cell raises instead.
    """
    found = copy.deepcopy(merged.cells) + (canaries(merged) if canary else [])
    for cell in found:
        if cell["id"] in (replaced or {}):
            cell["source"] = f"raise RuntimeError({replaced[cell['id']]!r})"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": found}
