"""What a learner has done: a file of their own that outlives the kernel."""

import json
import os
import time
from pathlib import Path

_NAME = ".progress.jsonl"
_VERSION = 1  # of rows


def _home():
    """The folder of the notebook; for a lesson that of its exercises."""
    try:
        here = Path.cwd()
        exercises = here.parent / "exercises"
        return exercises if here.name == "notebooks" and exercises.is_dir() else here
    except OSError:
        return Path()  # the folder is gone: writing will fail and say so


_HOME = _home()  # now, since a cell may change the folder later


def path() -> Path:
    """Return the file: `COURSE_LIB_PROGRESS`, else hidden in the notebook's folder."""
    return Path(os.environ.get("COURSE_LIB_PROGRESS") or _HOME / _NAME)


_unkept = []  # rows that could not be written; they last as long as this process


def note(exercise: str, state: str) -> str | None:
    """Add a row: `right`, `not yet`, `not started` or `hint`.

    Comes back with a reason if it cannot outlive this process. Rows are only ever
    added, each in one write, so that two notebooks do not disturb each other.
    """
    return _add({"exercise": exercise, "state": state})


def keep_guess(name: str, choice) -> str | None:
    """Add what was guessed; comes back with a reason as `note` does."""
    return _add({"v": _VERSION, "guess": name, "choice": choice})


def _add(row):
    row |= {"at": round(time.time())}
    try:
        with open(path(), "ab", buffering=0) as file:
            # a newline first, since the line before may have been cut short
            file.write(f"\n{json.dumps(row)}\n".encode())
    except OSError as error:
        _unkept.append(row)
        return f"{error.strerror} ({path()})"
    return None


def states() -> dict[str, list[str]]:
    """Return all states so far by exercise, oldest first, without damaged lines.

    The exercise of the newest row is the last.
    """
    by_exercise = {}
    for row in _rows():
        exercise, state = row.get("exercise"), row.get("state")
        if isinstance(exercise, str) and isinstance(state, str):
            earlier = by_exercise.pop(exercise, [])
            by_exercise[exercise] = [*earlier, state]  # the latest stands last
    return by_exercise


def guesses() -> dict:
    """Return the last choice by the name of its guess."""
    rows = (row for row in _rows() if isinstance(row.get("guess"), str))
    return {row["guess"]: row.get("choice") for row in rows}


def newer() -> int:
    """Return how many rows a newer version of the course wrote; they are left alone."""
    return sum(_is_newer(row) for row in _stored())


def _rows():
    return [row for row in _stored() if not _is_newer(row)] + _unkept


def _is_newer(row):
    return row.get("v", _VERSION) != _VERSION


def _stored():
    try:
        lines = path().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(map(_row, lines))


def _row(line):
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}
