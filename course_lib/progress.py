"""What a learner has done: a file of their own that outlives the kernel."""

import json
import os
import time
from pathlib import Path

_NAME = ".progress.jsonl"


def _home():
    """The folder of the notebook; for a lesson that of its exercises."""
    here = Path.cwd()
    exercises = here.parent / "exercises"
    return exercises if here.name == "notebooks" and exercises.is_dir() else here


_HOME = _home()  # now, since a cell may change the folder later


def place() -> Path:
    """The file: `COURSE_LIB_PROGRESS`, else hidden in the notebook's folder."""
    return Path(os.environ.get("COURSE_LIB_PROGRESS") or _HOME / _NAME)


def note(exercise: str, state: str) -> str | None:
    """Add a line: `right`, `not yet`, `not started` or `hint`; why not, if it failed.

    Lines are only ever added, each in one write, so that two notebooks do not disturb
    each other.
    """
    line = json.dumps({"exercise": exercise, "state": state, "at": round(time.time())})
    try:
        with open(place(), "ab", buffering=0) as file:
            # a newline first, since the line before may have been cut short
            file.write(f"\n{line}\n".encode())
    except OSError as error:
        return f"{error.strerror} ({place()})"
    return None


def states(exercise: str) -> list[str]:
    """All states of an exercise so far, oldest first; damaged lines are passed over."""
    try:
        text = place().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [
        row["state"]
        for row in map(_row, text.splitlines())
        if row.get("exercise") == exercise and isinstance(row.get("state"), str)
    ]


def _row(line):
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
