"""What was handed in: notebooks, alone, in folders and in zip files, read one by one.

Nothing is written to disk and no symbolic link is followed. `collect` looks at names
only; a notebook is read when its turn comes, so memory does not grow with a class.
"""

import functools
import itertools
import os
import re
import stat
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from course_lib.errors import UsageError
from course_lib.grading.handed_in import archives, learners
from course_lib.grading.handed_in.archives import LARGEST, Refused

__all__ = ["LARGEST", "Refused", "Submission", "collect"]

_EMPTY = "there is no notebook (.ipynb) in it: hand in the notebook itself"
_LINK = "a symbolic link, and links are not followed: hand in the file itself"
_SPECIAL = "not an ordinary file: hand in the notebook as JupyterLab saved it"
_NESTED = "a zip file in a zip file in a zip file: put the notebooks in one"


class _Place(NamedTuple):
    """Where to read: `folders` below a named path, then `members` of zip files."""

    named: Path
    folders: tuple[str, ...] = ()
    members: tuple[tuple[int, str], ...] = ()  # number and name in each zip file


@dataclass(frozen=True)
class Submission:
    """A notebook that was handed in, not read yet; `source` is shown to people."""

    learner: str
    source: str
    place: _Place
    problem: str = ""  # why it cannot be graded, where that is known already

    def read(self) -> bytes:
        """Return the notebook as it is in its file.

        Errors: `Refused`, whatever the reason why it cannot be read.
        """
        if self.problem:
            raise Refused(self.problem)
        with _reasons(), _open(self.place) as file:
            return archives.read_notebook(file, self.place.members)


class _Entry(NamedTuple):
    """A notebook, or what may hold one: a folder (`_EMPTY` so far), a damaged zip."""

    parts: learners.Parts
    place: _Place
    problem: str = ""

    @property
    def path(self):
        """The parts as `learners` wants them, where only a notebook is a file."""
        file = not self.parts or _kind(self.parts[-1]) == ".ipynb"
        return self.parts if file else (*self.parts, "")


def collect(paths: Iterable[Path]) -> list[Submission]:
    """Return all notebooks at and below `paths`, by learner, then by source.

    A learner's folder or zip file without a notebook is there too, as one that is
    refused when it is read. Errors: `UsageError` for a path that cannot be graded, or
    if there is no notebook at all.
    """
    roots = [Path(path) for path in paths]
    looks = [(Path(os.path.abspath(root)), _look(root)) for root in roots]
    if all(entry.problem == _EMPTY for _, entries in looks for entry in entries):
        named = ", ".join(map(str, roots)) or "nothing"
        raise UsageError(
            f"found no notebook (.ipynb) in {_text(named)}."
            " Name notebooks, or a folder or zip file of what was handed in"
        )
    owners = []
    for root, entries in looks:
        owners += learners.owners([entry.path for entry in entries], root)
    everything = [(root, entry) for root, entries in looks for entry in entries]
    handed = map(_submission, learners.shown(owners), everything)
    return sorted(handed, key=lambda entry: (entry.learner, entry.source))


def _submission(learner, entry):
    root, (parts, place, problem) = entry
    # below a named folder the path says it all
    shown = parts if place.folders else (root.name, *parts)
    learner = _text(learner).strip() or "unnamed"
    return Submission(learner, _text("/".join(shown)), place, problem)


def _text(name):
    """A file's name with what is no text in it replaced."""
    return re.sub("[\ud800-\udfff]", "\ufffd", name)


def _look(path):
    """Everything at and below one named path, a learner's empty folders included."""
    entries = _handed_in(list(_below(path)))
    notebooks = [entry for entry in entries if entry.problem != _EMPTY]
    paths = [entry.path for entry in notebooks]
    folders = {entry.parts: entry for entry in entries if entry.problem == _EMPTY}
    root = Path(os.path.abspath(path))
    empty = [folders[parts] for parts in learners.without(paths, folders, root)]
    return [*notebooks, *empty] or [folders[()]]


def _handed_in(entries):
    """Without what lies beside somebody's exercises: solutions, lessons.

    Nor with the exercises of a clone whose learner writes in its `work/`.
    """
    courses = {top for entry in entries for top in _around({"exercises"}, entry.parts)}
    notebooks = [entry.parts for entry in entries if entry.problem != _EMPTY]
    own = {top for parts in notebooks for top in _around({"exercises"}, parts)}
    clones = {top[:-1] for top in own if top[-1:] == (learners.WORK,)}
    return [
        entry
        for entry in entries
        if courses.isdisjoint(_around(learners.GIVEN, entry.parts))
        and clones.isdisjoint(_around({"exercises"}, entry.parts))
    ]


def _around(names, parts):
    """The folders around each folder of these names in a path."""
    return [parts[:number] for number, part in enumerate(parts) if part in names]


def _below(path):
    place = _Place(path.absolute())
    kind = path.suffix.lower()
    if not os.path.exists(path):
        raise UsageError(
            f"cannot grade {_text(str(path))}: there is no such file or folder. Name"
            " notebooks, folders or zip files; a single exercise is checked in its"
            " notebook"
        )
    if os.path.isdir(path):
        return _in_folder(place)
    if kind == ".zip":
        return _zip(functools.partial(_open, place), (), place)
    if kind == ".ipynb":
        return [_Entry((), place)]
    raise UsageError(
        f"cannot grade {_text(str(path))}: expected a notebook (.ipynb), a folder or a"
        " zip file. Unpack other archives first"
    )


def _in_folder(place):
    waiting: list[tuple] = [()]
    while waiting:  # a recursion would end at a thousand folders in each other
        parts = waiting.pop()
        here = place._replace(folders=parts)
        yield _Entry(parts, here, _EMPTY)
        try:
            entries = _entries(place.named.joinpath(*parts))
        except Refused as error:
            yield _Entry(parts, here, str(error))
            continue
        for name, link, folder in entries:
            inner = (*parts, name)
            there = place._replace(folders=inner)
            if link:
                yield _Entry(inner, there, _LINK)
            elif folder:
                waiting.append(inner)
            elif _kind(name) == ".zip":
                yield from _zip(functools.partial(_open, there), inner, there)
            else:
                yield _Entry(inner, there)


def _entries(folder):
    """All in a folder that may be or hold notebooks: name, is a link, is a folder."""
    with _reasons(), os.scandir(folder) as entries:
        every = [
            (entry.name, entry.is_symlink(), _is_folder(entry))
            for entry in entries
            if not _skipped(entry.name)
        ]
    return [entry for entry in every if entry[2] or _kind(entry[0])]


def _is_folder(entry):
    """True for a link to a folder, too."""
    if entry.is_symlink():
        # the entry would raise at a link that leads to itself
        return os.path.isdir(entry.path)
    return entry.is_dir(follow_symlinks=False)


def _skipped(name):
    return name.startswith(".") or name == "__MACOSX"


def _kind(name):
    """The suffix of a file that is or may hold a notebook, else an empty string."""
    suffix = os.path.splitext(name)[1].lower()
    return suffix if suffix in (".ipynb", ".zip") else ""


def _zip(opened, parts, place):
    """What is in a zip file; the file itself if it cannot be read."""
    try:
        with _reasons(), opened() as file:
            return list(_in_zip(file, parts, place))
    except Refused as error:
        return [_Entry(parts, place, str(error))]


def _in_zip(file, parts, place):
    archive = archives.open_zip(file)
    yield _Entry(parts, place, _EMPTY)
    for number, info in enumerate(archive.infolist()):
        names = archives.member_path(info)
        shown = tuple(itertools.takewhile(lambda name: not _skipped(name), names))
        is_file = names and shown == names and not info.is_dir()
        there = place._replace(members=(*place.members, (number, info.filename)))
        folders = shown[:-1] if is_file else shown
        for end in range(1, len(folders[: learners.DEEPEST]) + 1):
            yield _Entry((*parts, *folders[:end]), there, _EMPTY)
        if is_file and _kind(names[-1]):
            yield from _member(archive, info, _Entry((*parts, *names), there))


def _member(archive, info, entry):
    if stat.S_ISLNK(info.external_attr >> 16):
        return [entry._replace(problem=_LINK)]
    if _kind(entry.parts[-1]) == ".ipynb":
        return [entry]
    if len(entry.place.members) > 1:
        return [entry._replace(problem=_NESTED)]
    opened = functools.partial(archives.inner_zip, archive, info)
    return _zip(opened, entry.parts, entry.place)


def _open(place):
    """The file on disk, open. Errors: `Refused` for a link or a device; `OSError`."""
    path = place.named
    for name in place.folders:
        path /= name
        if path.is_symlink():  # it was none when the folder was listed
            raise Refused(_LINK)
    # to open a named pipe would wait for somebody who writes
    if not stat.S_ISREG(path.stat().st_mode):
        raise Refused(_SPECIAL)
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if place.folders else 0)
    return open(path, "rb", opener=lambda name, _: os.open(name, flags))


@contextmanager
def _reasons():
    """Turn errors of the system into a sentence for the learner."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused(f"cannot be read ({reason}): hand it in once more") from None
