"""What is to be done to each file, from what course and learner have.

Nothing is read or written here: `read` gives the learner's files.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from course_lib.workspace import merging, notebooks

_CLEARED = ("notebooks", "exercises")  # handed out without outputs


@dataclass(frozen=True)
class Original:
    """A file of the course.

    `certain`: nobody but the course wrote in it. `started` is what the clone has in its
    place, with somebody's answers.
    """

    data: bytes
    certain: bool = True
    started: bytes | None = None


@dataclass(frozen=True)
class Base:
    """What a learner was given of a file; `words` is empty where nobody knows.

    `seen` is the course's version at that time, `cells` has hashes of an exercise's
    cells, `beside` names the file that this one is a newer version of.
    """

    words: str
    seen: str
    cells: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""


@dataclass(frozen=True)
class Step:
    """One thing to do: write `data`, move the file `to`, remove it, or say its kind."""

    does: str
    path: str
    data: bytes = b""
    to: str = ""
    kind: str = ""


class Update:
    """Steps, and what is to be noted once they are done."""

    def __init__(
        self,
        course: Mapping[str, Original | None],
        before: Mapping[str, Base],
        read: Callable[[str], bytes | None],
    ):
        self.before, self.read = before, read
        self.steps: list[Step] = []
        self.bases: dict[str, Base] = {}
        for path, original in course.items():
            if original is None:
                self._keep(path)
                self._add("say", path, kind="unreadable")
            else:
                self._plan(_Handout(path, original))
        for path in sorted(before.keys() - course.keys() - self.bases.keys()):
            self._leave(path)

    def _add(self, does, path, **more):
        self.steps.append(Step(does, path, **more))

    def _keep(self, path):
        """What was noted of a file, and of a newer version beside it, stays noted."""
        noted = self.before.items()
        self.bases |= {p: base for p, base in noted if path in (p, base.beside)}

    def _plan(self, file):
        path, mine = file.path, self.read(file.path)
        is_new = mine is None
        mine = file.original.started if is_new else mine
        theirs = notebooks.parse(mine) if file.notebook and mine is not None else None
        self.bases[path] = file.base
        if mine is not None and file.notebook and not theirs:
            self._put_aside(path, mine, is_new=is_new)
            mine = None
        if mine is None:
            kind = "new" if is_new else ""
            self._add("write", path, data=file.handed, kind=kind)
        elif is_new:
            self._take_over(file, theirs)
        else:
            self._update(file, mine, theirs)

    def _put_aside(self, path, data, *, is_new):
        """A notebook that is none is kept under a name that says so."""
        to, number = f"{path}.damaged", 2
        while self.read(to) not in (None, data):
            to, number = f"{path}.damaged-{number}", number + 1
        if is_new:
            self._add("write", to, data=data, kind="damaged there")
        else:
            self._add("move", path, to=to, kind="damaged")

    def _take_over(self, file, theirs):
        """What was written in the clone begins the learner's copy."""
        if file.is_merged:
            theirs = merging.merge_versions(file.notebook, file.base.cells, theirs)
        data = notebooks.dump(notebooks.clear(theirs))
        self._add("write", file.path, data=data, kind="taken over")

    def _update(self, file, mine, theirs):
        base = self.before.get(file.path, Base("", ""))
        words = notebooks.words(mine, theirs)
        if base.seen == file.version:
            if words != file.words or not file.original.certain:
                self._keep(file.path)
        elif file.is_merged:
            self._merge(file, base, theirs)
        elif words == base.words:
            data = file.shown_as(theirs)
            self._add("write", file.path, data=data, kind="updated")
        elif words != file.words:
            self.bases[file.path] = Base(base.words, file.version)
            self._put_beside(file)

    def _merge(self, file, base, theirs):
        merged = merging.merge_versions(file.notebook, base.cells, theirs)
        if merged != theirs:
            is_theirs = notebooks.words(b"", merged) != file.words
            kind = "answers kept" if is_theirs else "updated"
            self._add("write", file.path, data=notebooks.dump(merged), kind=kind)

    def _put_beside(self, file):
        """The learner's own stays: the course's new one gets a name of its own."""
        place = PurePosixPath(file.path)
        more = (f"-{number}" if number > 1 else "" for number in itertools.count(1))
        stems = (f"{place.stem}.new{end}{place.suffix}" for end in more)
        names = (str(place.with_name(stem)) for stem in stems)
        name = next(name for name in names if self._is_free(name, file))
        if self.read(name) != file.handed:
            self._add("write", name, data=file.handed)
        self.bases[name] = Base(file.words, file.version, beside=file.path)
        self._add("say", file.path, to=name, kind="beside")

    def _is_free(self, name, file):
        """True for a name with nothing that a learner wrote."""
        there, base = self.read(name), self.before.get(name, Base("", ""))
        return there is None or _words(name, there) in (base.words, file.words)

    def _leave(self, path):
        """The course has no such file any more, or it was beside one, and is no use."""
        there, base = self.read(path), self.before[path]
        if there is not None and base.words == _words(path, there):
            self._add("remove", path, kind="gone")
        elif there is not None and not base.beside:
            self._add("say", path, kind="stays")


class _Handout:
    """A file of the course as it is handed out."""

    def __init__(self, path, original):
        self.path = path
        self.original = original
        self.handed = original.data
        self.notebook = _notebook(path, original.data)
        self.version = notebooks.version(self.handed, self.notebook)
        self.words = notebooks.words(self.handed, self.notebook)
        top = path.partition("/")[0]
        self.is_cleared = bool(self.notebook and top in _CLEARED)
        if self.is_cleared:
            self.notebook = notebooks.clear(self.notebook)
            self.handed = notebooks.dump(self.notebook)
        can_merge = self.notebook and merging.has_ids(self.notebook)
        self.is_merged = bool(can_merge and top == "exercises")

    def shown_as(self, theirs):
        """Return its bytes with the outputs of a learner who ran an older version."""
        if not (theirs and self.is_cleared):
            return self.handed
        return notebooks.dump(merging.with_outputs(self.notebook, theirs))

    @cached_property
    def base(self):
        """What is noted of it, without a word of which nobody knows whose it is."""
        if not self.original.certain:
            return Base("", self.version)
        cells = merging.hashes(self.notebook) if self.is_merged else {}
        return Base(self.words, self.version, cells)


def _notebook(path, data):
    return notebooks.parse(data) if path.endswith(".ipynb") else None


def _words(path, data):
    return notebooks.words(data, _notebook(path, data))
