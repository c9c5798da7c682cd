"""Whose a notebook is, told from the path at which it was handed in.

The first rule that fits decides:

1. A folder or file as Moodle names it, `Jane Doe_123_assignsubmission_file_`: at the
   top, or deeper where all are named so (a learner may name a folder like another's).
2. A file as Canvas names it, at the top: `doejane_LATE_123_4567_x.ipynb` is doejane's.
3. The first folder, or zip file, below what was named. Passed over are `submitted`
   (nbgrader's), `home`, and one around everything that has several folders in it.
4. In `exercises`, `solutions` or `notebooks`, these maybe in `work`, it is somebody's
   own course: the name of the folder around it. So it is for files that kept their
   names (`04_….ipynb`, and there are not two that begin with 04), also for one that
   was named itself.
5. A file that lies flat among others, or was named itself: its own name.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

# the folders and zip files below what was named, and the file: "" for a folder's own
Parts = tuple[str, ...]
DEEPEST = 6  # folders below this many are nobody's hand-in

_MOODLE = re.compile(r"(.+?)_(\d+)_assignsubmission_.*", re.DOTALL)
_CANVAS = re.compile(r"([^_]+)(?:_LATE)?_(\d+)_\d+_.+\.(?:ipynb|zip)", re.I | re.DOTALL)
_SUFFIX = re.compile(r"\.(ipynb|zip)\Z", re.IGNORECASE)
_KEPT = re.compile(r"\d\d([ _-].*)?", re.DOTALL)  # the name of an exercise
_COPY = re.compile(r" ?\(\d+\)|-Copy\d+")  # what a browser and Jupyter add to a name
GIVEN = {"solutions", "notebooks"}  # of a course, beside what a learner writes into
WORK = "work"  # a learner's own copy in a clone
_COURSE = GIVEN | {"exercises"}
_OF_ALL = {"submitted", "home"}  # each folder in it is a learner's, even one alone


class Owner(NamedTuple):
    """A learner; `number` and `where` tell two of one name on a platform apart."""

    name: str
    number: str = ""
    where: Parts = ()


class _Layout(NamedTuple):
    """How everything below one named path lies; `root` is absolute."""

    root: Path
    around: Parts  # the folders around everything that are not a learner's
    moodle: bool  # each path has a part as Moodle names it
    keeps_names: bool  # files have the names of exercises, not those of learners


def owners(paths: Sequence[Parts], root: Path) -> list[Owner]:
    """Return whose each notebook is; `root` is absolute, () a file named so."""
    layout = _layout(paths, root)
    return [_owner(path, layout) for path in paths]


def shown(people: Iterable[Owner]) -> list[str]:
    """Return the names of learners, with the platform's numbers where two are alike."""
    people = list(people)
    numbers = defaultdict(set)
    for owner in people:
        numbers[owner.name, owner.where].add(owner.number)
    return [
        f"{owner.name} ({owner.number})"
        if len(numbers[owner.name, owner.where]) > 1
        else owner.name
        for owner in people
    ]


def without(
    paths: Sequence[Parts], folders: Iterable[Parts], root: Path
) -> list[Parts]:
    """Return those of `folders`, zips too, whose learner has no notebook."""
    folders = {folder for folder in folders if 0 < len(folder) <= DEEPEST}
    layout = _layout(paths, root)
    known = {_owner(path, layout) for path in paths}
    parents = {path[:end] for path in paths for end in range(len(path[:DEEPEST]) + 1)}
    # beside notebooks, or in a course, a folder may hold pictures or data
    mixed = any(_is_mixed(_inner(path, layout)) for path in paths)
    empty = []
    for folder in sorted(folders - parents):
        path = (*folder, "")  # as that of a file in it
        owner = _owner(path, layout)
        is_top = len(_inner(path, layout)) == 2
        is_theirs = is_top and (not mixed or _is_zip(folder[-1]))
        if owner not in known and (is_theirs or owner.number):
            known.add(owner)
            empty.append(folder)
    return empty


def _is_zip(part):
    return part.lower().endswith(".zip")


def _is_mixed(inner):
    return len(inner) == 1 or (inner and inner[0] in _COURSE)


def _layout(paths, root):
    moodle = all(any(map(_MOODLE.fullmatch, path)) for path in paths)
    flat = {_COPY.sub("", _stem(path[-1])) for path in paths if len(path) == 1}
    numbers = [name[:2] for name in flat if _KEPT.fullmatch(name)]
    return _Layout(
        root=root,
        around=_around(paths, root),
        moodle=moodle,
        keeps_names=len(numbers) == len(set(numbers)),
    )


def _around(paths, root):
    common = tuple(os.path.commonprefix([path[:-1] for path in paths]))
    plain = [part for part in common if not _is_zip(part)]
    if not common or len(plain) > 1 or _stem(root.name) in _OF_ALL:
        return ()
    inside = {path[len(common)] for path in paths}
    files = any(len(path) == len(common) + 1 for path in paths)
    if any(map(_CANVAS.fullmatch, inside)):
        return common
    return () if files or inside & _COURSE else common


def _inner(path, layout):
    """The path from where learners' names begin."""
    inner = path[len(layout.around) :]
    is_copy = inner[:1] == (WORK,) and not _COURSE.isdisjoint(inner[1:2])
    passed = is_copy or (len(inner) > 2 and inner[0] in _OF_ALL)
    return inner[1:] if passed else inner


def _owner(path, layout):
    top = path[: len(layout.around) + 1]
    return (
        _platform(_MOODLE, path if layout.moodle else top, layout.root)
        or _platform(_CANVAS, top, layout.root)
        or Owner(_name(_inner(path, layout), layout))
    )


def _platform(pattern, path, root):
    """The owner by the first part that the platform has named, if there is one."""
    above = [str(root.parent)]
    for part in (root.name, *path):
        match = pattern.fullmatch(part)
        if match:
            return Owner(match[1], number=match[2], where=tuple(above))
        above.append(part)
    return None


def _name(inner, layout):
    root = layout.root
    if not inner:  # a file that was named itself
        is_kept = root.parent.name in _COURSE and _KEPT.fullmatch(_stem(root.name))
        return _course(root.parent, ()) if is_kept else _stem(root.name)
    *folders, file = inner
    if folders:
        return _course(root, folders) if folders[0] in _COURSE else _stem(folders[0])
    is_kept = layout.keeps_names and _KEPT.fullmatch(_stem(file))
    is_named = is_kept or root.name in _COURSE
    return _course(root, folders) if is_named else _stem(file)


def _course(root, folders):
    """The name of the folder that holds somebody's course, in its `work` or not."""
    place = root.parent if root.name in _COURSE else root
    is_copy = place.name == WORK and (folders or place != root)
    return _stem((place.parent if is_copy else place).name)


def _stem(name):
    return _SUFFIX.sub("", name)
