"""A newer exercise with the learner's words in it: three versions become one, by cell.

The course's order holds. An answer that the learner changed stays theirs; of other
cells that both changed the course's comes, and the learner's stands below it.
"""

import itertools
from collections.abc import Iterator, Mapping

from course_lib.workspace.cell import free_id
from course_lib.workspace.notebooks import cells, digest, metadata

_OF_COURSE = ("nbgrader", "course", "deletable", "editable")  # metadata of its cells
_SHOWN = ("outputs", "execution_count")
_KERNEL = ("kernelspec", "language_info")


def hashes(notebook: dict) -> dict[str, str]:
    """Return a hash of each cell's source, by id: the base of `merge_versions`."""
    return {cell.id: digest(cell.plain) for cell in cells(notebook)}


def has_ids(notebook: dict) -> bool:
    """Return True if each cell has an id of its own."""
    names = [cell.id for cell in cells(notebook)]
    return all(names) and len({*names}) == len(names)


def merge_versions(course: dict, base: Mapping[str, str], learner: dict) -> dict:
    """Return the course's notebook with all that the learner wrote.

    `base` has the hashes of what the learner was given; without it all that differs
    from the course counts as theirs.
    """
    versions = _Versions(course, base, learner)
    given, theirs = metadata(course), metadata(learner)
    kernel = {key: theirs[key] for key in _KERNEL if key in theirs}
    merged = {**course, "metadata": {**theirs, **given, **kernel}}
    return {**merged, "cells": list(versions.cells())}


def with_outputs(course: dict, learner: dict) -> dict:
    """Return the course's notebook with what the learner's cells showed.

    Outputs stay above the first cell of code that differs: those below may come of it.
    """
    ran = (cell for cell in cells(learner) if cell.is_code and cell.plain)
    code = (cell for cell in cells(course) if cell.is_code and cell.plain)
    pairs = itertools.takewhile(_is_same_code, zip(code, ran))
    shown = {id(original.raw): _with_outputs(original, own) for original, own in pairs}
    return {**course, "cells": [shown.get(id(raw), raw) for raw in course["cells"]]}


class _Versions:
    """Which cell of the learner's stands for which of the course, and what is more."""

    def __init__(self, course, base, learner):
        self.course = {cell.id: cell for cell in cells(course)}
        self.base, self.learner = base, [*cells(learner)]
        self.taken = set(self.course)
        self.places = list(map(self._named, self.learner))
        self._find_by_source()
        self.chosen = {place: self._choose(place) for place in self.course}

    def cells(self) -> Iterator[dict]:
        """Yield the cells of the merged notebook."""
        followers = self._followers()
        yield from followers[""]
        for place, original in self.course.items():
            number = self.chosen[place]
            theirs = None if number is None else self.learner[number]
            yield from self._joined(original, theirs)
            yield from followers[place]

    def _named(self, cell):
        """The id that a cell had when it was handed out, or nothing."""
        known = {*self.course, *self.base}
        return next((n for n in (cell.id, cell.grade_id) if n in known), "")

    def _find_by_source(self):
        """Give cells that lost their ids a place, if their source is as it was."""
        known = {}
        for place in {**self.base, **self.course}:
            if place not in self.places:
                original = self.course.get(place)
                known[self.base.get(place)] = place
                known[digest(original.plain) if original else None] = place
        for number, cell in enumerate(self.learner):
            if not self.places[number]:
                self.places[number] = known.pop(digest(cell.plain), "")

    def _choose(self, place):
        """The number of the cell that stands for one of the course; None if it went.

        A copy stands for an answer only if it was written into and the first was not.
        """
        numbers = [n for n, named in enumerate(self.places) if named == place]
        is_answer = _is_answer(self.course[place])
        return min(
            numbers,
            key=lambda n: (
                is_answer and not self._is_changed(n),
                self.learner[n].id != place,
            ),
            default=None,
        )

    def _is_changed(self, number):
        """True if the learner wrote into a cell."""
        cell, place = self.learner[number], self.places[number]
        if not cell.plain:
            return False
        if place in self.base:
            return digest(cell.plain) != self.base[place]
        original = self.course.get(place)
        return original is None or cell.plain != original.plain

    def _followers(self):
        """The cells that are the learner's alone, by the place that they followed."""
        followers, last = {"": [], **{place: [] for place in self.course}}, ""
        for number, cell in enumerate(self.learner):
            place = self.places[number]
            if place in self.course and self.chosen[place] == number:
                last = place
            elif self._is_more(number):
                followers[last].append(self._more(cell))
        return followers

    def _is_more(self, number):
        """True for a cell to keep: not what was handed out, in its own place."""
        cell, place = self.learner[number], self.places[number]
        is_copy = place and cell.id != place and place in self.course
        return bool(cell.plain) and bool(is_copy or self._is_changed(number))

    def _more(self, cell):
        """A cell with an id that no other has."""
        free = free_id(cell.id or "own", self.taken)
        self.taken.add(free)
        return {**cell.raw, "id": free}

    def _joined(self, original, theirs):
        if theirs is None or theirs.plain in ("", original.plain):
            return [_with_outputs(original, theirs)]
        place = original.id
        if not self._is_changed(self.chosen[place]):
            return [original.raw]
        is_same = self.base.get(place) == digest(original.plain)
        if is_same or _is_answer(original):
            about = {**theirs.metadata, **original.metadata}
            return [{**theirs.raw, "id": place, "metadata": about}]
        about = theirs.metadata.items()
        own = {key: value for key, value in about if key not in _OF_COURSE}
        return [original.raw, {**self._more(theirs), "metadata": own}]


def _is_answer(cell):
    return cell.grader.get("solution") is True


def _is_same_code(pair):
    original, theirs = pair
    return original.source == theirs.source


def _with_outputs(original, theirs):
    """The course's cell, with what it showed when the learner ran the same source."""
    if theirs is None or theirs.source != original.source or not original.is_code:
        return original.raw
    shown = {key: theirs.raw[key] for key in _SHOWN if key in theirs.raw}
    return {**original.raw, **shown}
