"""What a folder holds at each moment of a run, as a kill in that moment would leave it.

Linux tells of every change in a folder, whoever makes it: PyTorch, Python or a program
that it starts (man 7 inotify). From what was there before and after some changes, each
state between them is put together: a file that was just opened is empty, one that is
being written ends in the middle, and one that is renamed has its name at once.

A state is a dict by the path in the folder: the bytes of a file, the target of a link
as text, None for a folder.
"""

import json
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from course_lib.system import linux

_MODIFIED, _CLOSED, _FROM, _TO = 0x2, 0x8, 0x40, 0x80
_CREATED, _DELETED, _FOLDER = 0x100, 0x200, 0x40000000
_HEARD = _MODIFIED | _CLOSED | _FROM | _TO | _CREATED | _DELETED
_HEAD = struct.Struct("iIII")
# how a path is there after a change; `saved`: nothing changes any more
PARTS = ("empty", "half", "whole", "named", "gone", "saved")
_BLOCK = 4096  # bytes that a system writes at once
_MOST_BYTES, _MOST_FILES = 16 << 20, 500


class FolderChange(NamedTuple):
    """One change of a path in a folder; `pair` is the same for both names of a move."""

    kind: int
    path: str
    pair: int = 0


class FolderChanges:
    """Hears each change in a folder and in those in it; see `started`."""

    def __init__(self, folder: Path, handle: int):
        self._folder, self._handle = folder, handle
        self._paths = {}
        self.watch(folder)

    @classmethod
    def started(cls, folder: Path) -> "FolderChanges | None":
        """Return what hears of changes from now on; None where a system does not."""
        if sys.platform != "linux":
            return None
        handle = linux.libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        return None if handle < 0 else cls(folder, handle)

    def watch(self, folder: Path) -> None:
        """Hear of changes in one more folder."""
        name = os.fsencode(folder)
        number = linux.libc().inotify_add_watch(self._handle, name, _HEARD)
        if number >= 0:
            inside = os.path.relpath(folder, self._folder)
            self._paths[number] = "" if inside == "." else f"{inside}/"

    def read(self) -> list[FolderChange]:
        """Return what has changed since the last call, in order."""
        changes = []
        while data := self._data():
            place = 0
            while place < len(data):
                number, kind, pair, size = _HEAD.unpack_from(data, place)
                place += _HEAD.size + size
                name = os.fsdecode(data[place - size : place].rstrip(b"\0"))
                if kind & _HEARD and number in self._paths:
                    path = self._paths[number] + name
                    changes.append(FolderChange(kind, path, pair))
                    self._follow(changes[-1], changes)
        return changes

    def _data(self):
        try:
            return os.read(self._handle, 1 << 16)
        except BlockingIOError:
            return b""

    def _follow(self, change, changes):
        """Hear of a new folder, too, and call a moved one by its new name."""
        if change.kind & _FOLDER and change.kind & _CREATED:
            self.watch(self._folder / change.path)
        if change.kind & _FOLDER and change.kind & _TO:
            for other in changes[:-1]:
                if other.pair == change.pair:
                    old, new = f"{other.path}/", f"{change.path}/"
                    for number, path in self._paths.items():
                        if path.startswith(old):
                            self._paths[number] = new + path.removeprefix(old)

    def close(self) -> None:
        """Hear of nothing any more."""
        os.close(self._handle)


def snapshot(folder: Path) -> dict | None:
    """Return the present state of a folder; None if it holds too much."""
    state, left = {}, _MOST_BYTES
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in folders + files):
            content = _content(path)
            left -= len(content or "")
            if left < 0 or len(state) > _MOST_FILES:
                return None
            state[str(path.relative_to(folder))] = content
    return state


def _content(path):
    if path.is_symlink():
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else None


def restore(folder: Path, state: dict) -> None:
    """Let a folder hold this state, and nothing else."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, content in sorted(state.items()):  # a folder stands before what is in it
        path = folder / name
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


class _NamedFile:
    """A file under whatever names it has: what it was, and what it is afterwards."""

    def __init__(self, before=b"", *, known=True):
        self.before = self.after = before
        self.written = False
        self.known = known
        self.last = 0  # the step of its last write, at which it is half there

    def content(self, part, step):
        """Return what it holds at a step when it is `empty`, `half` or `whole`.

        It may stay open after its last write; then nothing is missing any more.
        """
        if part == "before":
            return self.before
        if part == "half" and step > self.last:
            return self.after
        if part == "whole" or not self.written or not isinstance(self.after, bytes):
            return self.after
        kept = self.before or b""
        kept = kept if self.after.startswith(kept) else b""  # else something was added
        rest = self.after[len(kept) :]
        return kept + rest[: len(rest) // 2 if part == "half" else 0]


def between(
    before: dict, changes: list[FolderChange], after: dict
) -> Iterator[tuple[dict, str, str]]:
    """Yield each state between two, with the path that has changed and how it is there.

    That is `empty`, `half`, `whole`, `named` (it has got this name) or `gone`. Left out
    are states with a file that was written and removed, of which nobody knows the rest.
    """
    files = {path: (_NamedFile(content), "before") for path, content in before.items()}
    steps, moving = [], {}
    for change in changes:
        for part in _applied(files, change, moving=moving, after=after):
            if part == "half":
                files[change.path][0].last = len(steps)
            steps.append((dict(files), change.path, part))
    for path, (file, _) in files.items():
        file.known = path in after
        file.after = after.get(path)
    for step, (names, path, part) in enumerate(steps):
        if part == "half" and len(names[path][0].after or "") <= _BLOCK:
            continue
        if all(file.known for file, _ in names.values()):
            state = {name: one.content(how, step) for name, (one, how) in names.items()}
            # a link and a folder are whole as soon as they are there
            yield state, path, "whole" if part == "empty" and state[path] else part


def _applied(files, change, *, moving, after):
    """Apply a change to files by name; yield how the path is there, once or twice.

    What comes from another folder is whole, with all that is `after` in it.
    """
    kind, path = change.kind, change.path
    if kind & _CREATED:
        file = _NamedFile(None if kind & _FOLDER else b"", known=False)
        files[path] = file, "empty"
        yield "empty"
    elif kind & _MODIFIED and path in files:
        file = files[path][0]
        file.written, file.known = True, False
        for part in ("empty", "half"):
            files[path] = file, part
            yield part
    elif kind & _CLOSED and path in files:
        file = files[path][0]
        if file.written:
            files[path] = file, "whole"
            yield "whole"
    elif kind & (_FROM | _DELETED):
        moving[change.pair] = path, _taken(files, path)
        if kind & _DELETED:
            yield "gone"
    elif kind & _TO:
        _taken(files, path)
        inside = [name for name in after if f"{name}/".startswith(f"{path}/")]
        new = {name: (_NamedFile(known=False), "whole") for name in {path, *inside}}
        old, taken = moving.pop(change.pair, (path, new))
        for name, entry in taken.items():
            files[path + name.removeprefix(old)] = entry
        yield "named"


def _taken(files, path):
    """Take a path out, and all that is in it if it is a folder."""
    inside = [name for name in files if name == path or name.startswith(f"{path}/")]
    return {name: files.pop(name) for name in inside}


class FolderMoment(NamedTuple):
    """A state, after which step it was, how many steps are saved, what has changed."""

    state: dict
    done: int
    path: str
    part: str


def keep(moments: list[FolderMoment], path: Path) -> None:
    """Write moments into a file, as data that is safe to read."""
    rows = []
    for moment in moments:
        state = {
            name: {"bytes": content.hex()} if isinstance(content, bytes) else content
            for name, content in moment.state.items()
        }
        rows.append(moment._replace(state=state)._asdict())
    path.write_text(json.dumps(rows), encoding="utf-8")


def kept(path: Path) -> list[FolderMoment]:
    """Return the moments of a file; none if it holds anything else, or too much."""
    try:
        if path.stat().st_size > 64 * _MOST_BYTES:
            return []
        return [_moment(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return []


def _moment(state, done, path, part):
    """A moment as it was kept; an answer may have written the file, too."""
    if not isinstance(path, str) or part not in PARTS or type(done) is not int:
        raise ValueError("no moment")
    for name, content in state.items():
        if isinstance(content, dict):
            state[name] = bytes.fromhex(content["bytes"])
        elif not isinstance(content, str | None):
            raise ValueError("no file")
    return FolderMoment(state, done, path, part)


class FolderStates:
    """The states of a folder, each once, as far as `look` is called often enough.

    It is called before and after anything that may change the folder: then it is known
    what was in a file that is no more.
    """

    def __init__(self, folder: Path):
        self._folder = Path(folder)
        self._changes = FolderChanges.started(self._folder)
        self._before = snapshot(self._folder)
        self._found, self._busy = {}, False

    def look(self, during: int, after: int) -> None:
        """Take in what has changed since; so many steps are saved then, and now."""
        if self._busy or self._changes is None or self._before is None:
            return
        self._busy = True  # it opens files itself
        try:
            changes, now = self._changes.read(), self._present()
            if now is not None:
                for state, path, part in between(self._before, changes, now):
                    self._note(FolderMoment(state, during, path, part))
                self._note(FolderMoment(now, after, "", "saved"))
            self._before = now
        finally:
            self._busy = False

    def _present(self):
        try:
            return snapshot(self._folder)
        except OSError:  # a thread or a program of the answer has removed it meanwhile
            return None

    def _note(self, moment):
        key = tuple(sorted(moment.state.items()))
        known = self._found.get(key)
        if known is None:
            self._found[key] = moment
        elif known.done < moment.done:
            self._found[key] = known._replace(done=moment.done)

    def watch(self, folder) -> None:
        """Hear of a new folder in time, before something is written into it."""
        place = Path(os.path.abspath(folder))
        if self._changes is not None and self._folder in place.parents:
            self._changes.watch(place)

    def close(self) -> list[FolderMoment]:
        """Return all that were found, in order, but for the empty folder."""
        if self._changes is not None:
            self._changes.close()
        return [moment for moment in self._found.values() if moment.state]
