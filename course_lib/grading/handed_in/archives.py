"""Zip files, read in memory: nothing is unpacked to disk, nothing grows unbounded.

A zip file is written by a learner: every number in it may be a lie.
"""

import functools
import os
import re
import threading
import zipfile
from collections.abc import Sequence
from contextlib import contextmanager
from io import BytesIO, FileIO
from typing import BinaryIO

LARGEST = 20_000_000  # bytes of a notebook, and of a zip file's table of contents
_LARGEST_ZIP = 5 * LARGEST  # bytes of a zip file in a zip file: it is held in memory
_MOST = 100_000  # files in a zip file
_MOST_OPEN = 2  # zip files that are kept open: one of a class, one in it
_archives = {}
_turn = threading.Lock()
_ENCRYPTED, _UTF8 = 0x1, 0x800  # bits in the flags of a member

_DAMAGED = "a damaged zip file: pack it again, or hand in the notebook itself"
_LOCKED = "locked by a password: hand it in without one"
_METHOD = "packed by a method that is not read here: pack an ordinary zip file"
_MANY = f"a zip file of more than {_MOST:,} files: pack the notebooks only"
_CHANGED = "changed while the grader was at work: grade it once more"


class Refused(Exception):
    """This file cannot be graded; the message is a sentence for the learner."""


class _Modest:
    """A file whose reader gets at most `most` bytes at a time."""

    def __init__(self, file):
        self.file, self.most = file, LARGEST

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size=None):
        if size is None:  # the end, of which the reader thinks that it is short
            size = self.most
        if size > self.most:
            raise Refused(_MANY)
        return self.file.read(size)


class _Own(FileIO):
    """A file that is closed when nobody has it any more, without a warning."""

    def __del__(self):
        self.close()


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """Return the zip file in an open file, which stays the caller's to close.

    Errors: `Refused` if it is damaged or holds too much.
    """
    modest = _Modest(file)
    with _undamaged():
        archive = zipfile.ZipFile(modest)
    if len(archive.infolist()) > _MOST:
        raise Refused(_MANY)
    modest.most = _LARGEST_ZIP + 1  # from here on members are read
    return archive


def member_path(member: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return folders and name of a member, without what leads out of the zip file."""
    name = member.filename
    if not member.flag_bits & _UTF8:
        try:  # macOS writes UTF-8 and does not say so
            name = name.encode("cp437").decode()
        except UnicodeError:
            pass
    parts = re.split(r"[/\\]", name)
    return tuple(part for part in parts if part not in ("", ".", ".."))


def inner_zip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BytesIO:
    """Return a zip file that is in a zip file, in memory. Errors: `Refused`."""
    return BytesIO(_inflate(archive, member, limit=_LARGEST_ZIP))


def read_notebook(file: BinaryIO, members: Sequence[tuple[int, str]]) -> bytes:
    """Return the notebook in an open file, or where `members` lead to in a zip file.

    Each is the number and the name of a member of a zip file. Errors: `Refused`.
    """
    status = os.fstat(file.fileno())
    if not members:
        return _limited(file, status.st_size, LARGEST)
    key: tuple = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    archive = _opened(key, lambda: _Own(os.dup(file.fileno())))
    for member in members[:-1]:
        info = _member(archive, member)
        key = (*key, *member)
        archive = _opened(key, functools.partial(inner_zip, archive, info))
    return _inflate(archive, _member(archive, members[-1]), limit=LARGEST)


def _opened(key, opened):
    """The zip file of this key, kept open: a table of contents takes long to read."""
    with _turn:
        archive = _archives.pop(key, None)
        if archive is None:
            archive = open_zip(opened())
        while len(_archives) >= _MOST_OPEN:
            _archives.pop(next(iter(_archives)))  # what was not used for longest
        _archives[key] = archive
        return archive


def _member(archive, member):
    number, name = member
    infos = archive.infolist()[number : number + 1]
    if [info.filename for info in infos] != [name]:
        raise Refused(_CHANGED)
    return infos[0]


@contextmanager
def _undamaged():
    """Turn whatever a damaged zip file makes of its reader into a sentence."""
    try:
        yield
    except Refused:
        raise
    except Exception:
        raise Refused(_DAMAGED) from None


def _inflate(archive, member, *, limit):
    if member.flag_bits & _ENCRYPTED:
        raise Refused(_LOCKED)
    # other methods may make gigabytes of a few bytes before a limit is looked at
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refused(_METHOD)
    with _undamaged(), archive.open(member) as file:
        return _limited(file, member.file_size, limit)


def _limited(file, size, limit):
    """All of a file of at most `limit` bytes; no more is read."""
    data = file.read(limit + 1) if size <= limit else b""
    if size > limit or len(data) > limit:
        advice = "clear its outputs, save it" if limit == LARGEST else "pack less"
        raise Refused(
            f"{max(size, len(data)):,} bytes, and at most {limit:,} are read:"
            f" {advice} and hand it in again"
        )
    return data
