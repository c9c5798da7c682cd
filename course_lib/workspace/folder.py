"""A learner's folder on the disk: every file in it is written whole or not at all."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from course_lib.errors import CourseError
from course_lib.workspace.atomic import write_whole
from course_lib.workspace.plan import Base, Step

_NOTE, _VERSION = ".course.json", 1
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_AGAIN = "Nothing of yours is lost. Then run the same command again"


class FolderError(CourseError):
    """The learner's folder cannot be made or brought up to date; nothing is lost."""


class Folder:
    """What is in the folder, and what was noted of it."""

    def __init__(self, path: Path):
        self.path = Path(os.path.realpath(path))
        self._contents = {}  # as they were when they were first read

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None if there is none.

        Errors: `FolderError` for what is no file, leads out of here or cannot be read.
        """
        path = self._place(name)
        with _explained(path):
            if path.exists() and not path.is_file():
                raise FolderError(f"{path} is no file. Move it away. {_AGAIN}")
            data = path.read_bytes() if path.exists() else None
        self._contents.setdefault(name, data)
        return data

    def do(self, step: Step) -> None:
        """Write, move or remove a file, if it is as it was when it was read."""
        path, before = self._place(step.path), self._contents.get(step.path)
        if step.does == "say":
            return
        if self.read(step.path) != before:
            raise FolderError(f"{path} was saved meanwhile. {_AGAIN}")
        with _explained(path):
            if step.does == "write":
                write_whole(path, step.data)
            elif step.does == "move":
                os.replace(path, self._place(step.to))
            else:
                path.unlink()
        del self._contents[step.path]

    def _place(self, name):
        """Where a file is. Errors: `FolderError` if a link leads out of the folder."""
        path = self.path / name
        if not Path(os.path.realpath(path)).is_relative_to(self.path):
            out = f"{path} leads out of {self.path}, and no link out of it is followed"
            raise FolderError(f"{out}. Remove the link. {_AGAIN}")
        return path

    def bases(self) -> dict[str, Base]:
        """Return what was noted of each file, empty if there is no note to go by."""
        with contextlib.suppress(*_DAMAGE):
            note = json.loads(self.read(_NOTE) or "{}")
            if note["v"] == _VERSION:
                return {_inner(p): _base(entry) for p, entry in note["files"].items()}
        return {}

    def note(self, bases: Mapping[str, Base]) -> None:
        """Keep what is noted, if it is not kept already."""
        files = {path: asdict(bases[path]) for path in sorted(bases)}
        data = json.dumps({"v": _VERSION, "files": files}, indent=0).encode()
        if data != self.read(_NOTE):
            self.do(Step("write", _NOTE, data))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Make the folder, and wait until no other call is at work in it."""
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            # some systems and file systems know no such locks
            with contextlib.suppress(ImportError, OSError):
                import fcntl

                place = os.open(self.path, os.O_RDONLY)
                stack.callback(os.close, place)
                fcntl.flock(place, fcntl.LOCK_EX)
            yield


def _inner(path):
    if path.startswith("/") or not {"..", ""}.isdisjoint(path.split("/")):
        raise ValueError
    return path


def _base(entry):
    base = Base(**entry)
    texts = (base.words, base.seen, base.beside, *base.cells.values())
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return base


@contextlib.contextmanager
def _explained(path):
    """Turn errors of the system into a sentence."""
    try:
        yield
    except OSError as error:
        reason = f"cannot be read or written ({error.strerror}). Mend that"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "found no room on the disk. Free some"
        raise FolderError(f"{path} {reason}. {_AGAIN}") from None
