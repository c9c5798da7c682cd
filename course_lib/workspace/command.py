"""The command `work`: make a learner's own copy of the course, or bring what is new."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from course_lib.text import listed, many
from course_lib.workspace.clone import FOLDERS, course, may_write
from course_lib.workspace.folder import Folder, FolderError
from course_lib.workspace.plan import Step, Update

ROOT = Path(__file__).parents[2]
_PROGRESS = "exercises/.progress.jsonl"
_MOST = 4  # names in a line
_OTHERS = ("course_lib", "tests", "benchmarks")
_BEGIN = ("new", "taken over")
_NO_NOTE = """There was no note of what you were given, or none that can be read: all
that differed from the course counted as yours."""
_ABOUT = """Make a copy of the lessons and exercises to work in, without outputs, or
bring what is new into it. What you wrote stays yours."""
# what was done, or has to be known
_SAYS = {
    "new": "new: {paths}",
    "taken over": "taken over from the clone: {paths}",
    "updated": "updated: {paths}",
    "answers kept": "updated, with what you wrote: {paths}",
    "beside": "kept as it is: {path}. The course's new one is beside it: {to}",
    "damaged": "{path} was damaged: it is {to} now, and the course's is in its place",
    "damaged there": "a notebook of the clone is damaged: it is kept as {path}",
    "unreadable": "{path} of the clone cannot be read: yours was left alone",
    "gone": "removed, since nothing in it was yours: {paths}",
    "stays": "no longer in the course, but yours, so it stays: {path}",
}


def main(args: list[str]) -> int:
    """Make or update the folder that `args` name; exit status 1 if that cannot be."""
    parser = argparse.ArgumentParser("python -m course_lib work", description=_ABOUT)
    where = "where to (default: work/ in the clone of the course)"
    parser.add_argument("folder", nargs="?", metavar="FOLDER", type=Path, help=where)
    path = parser.parse_args(args).folder or ROOT / "work"
    try:
        _refuse(path)
        _bring(path)
    except FolderError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: run the same command again", file=sys.stderr)
        return 130
    return 0


def _refuse(path):
    """Errors: `FolderError` with what is wrong with this folder."""
    if not any((ROOT / "notebooks").glob("*.ipynb")):
        raise FolderError(
            f"there are no lessons in {ROOT}, beside the package. Clone the course, and"
            ' install it there: pip install -c constraints.txt -e "."'
        )
    place, root = (Path(os.path.realpath(p)) for p in (path, ROOT))
    parts = place.relative_to(root).parts if place.is_relative_to(root) else ()
    reason = ""
    if place.exists() and not place.is_dir():
        reason = "is a file"
    elif root.is_relative_to(place) or (place / "course_lib/__init__.py").exists():
        reason = "holds the course itself"
    elif parts and (parts[0][0] == "." or parts[0] in (*FOLDERS, *_OTHERS)):
        reason = "is a part of the course"
    if reason:
        raise FolderError(f"{path} {reason}. Name another folder")


def _bring(path):
    """Do what is to be done, then say it."""
    folder, handed_out = Folder(path), course(ROOT)
    with folder.alone():
        before = folder.bases()
        plan = Update(handed_out, before, folder.read)
        steps = [*plan.steps, *(() if before else _progress(folder))]
        for step in steps:
            folder.do(step)
        folder.note(plan.bases)
    for line in _lines(steps):
        print(line)
    if not before and sum(s.kind in _BEGIN for s in steps) < len(handed_out):
        print(_NO_NOTE)
    shown = os.path.relpath(path)
    first = min(name for name in handed_out if name.startswith("notebooks/"))
    state = "" if steps else f"{shown}/ is up to date. "
    print(f"{state}Open {shown}/{first} in JupyterLab")


def _progress(folder):
    """The progress that was noted in the clone, where the learner's folder has none."""
    noted = ROOT / _PROGRESS
    if may_write(noted) and folder.read(_PROGRESS) is None:
        data = noted.read_bytes()
        yield Step("write", _PROGRESS, data=data, kind="taken over")


def _lines(steps):
    """What was done, a line for each kind; what needs a look a line for each file."""
    for kind, sentence in _SAYS.items():
        named = [step for step in steps if step.kind == kind]
        if named and "{paths}" in sentence:
            yield sentence.format(paths=_short([step.path for step in named]))
        elif named:
            yield from (sentence.format(path=s.path, to=s.to) for s in named)


def _short(paths):
    if len(paths) <= _MOST:
        return listed(paths)
    tops = Counter("".join(path.partition("/")[:2]) for path in paths)
    return listed(f"{top} ({many(count, 'file')})" for top, count in tops.items())
