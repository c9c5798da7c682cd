"""Right and wrong answers to the exercises, as data.

Those to 4.1 are in `exercises/e4_1/`. An answer is a file in its `right/` or `wrong/`,
or a row of `wrong/rows.toml`: a short `source`, or a `right` answer of which a few
lines are changed. A wrong one has the hint that it must get: `mistake` is the whole
hint, which the check gives to whatever leaves the same fingerprint (`make mistakes`
keeps it); `hint` is one that the check gives by itself: `[late backward]` names the
text that it is, or words of it. `same as` marks the same mistake in another dress,
`slow` gives the seconds of one whose ranks wait for each other, or compute, until their
time is up.
"""

import json
import os
import re
import sys
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course_lib.exercises import folders

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

HERE = Path(__file__).parent / "exercises"
# `EVERY_CASE=1`, as for the table of checks, decides all answers with all seeds, and
# judges more values; `make proof` takes a share of these, for a row of the table is of
# an exercise as it is now
EVERY = bool(os.environ.get("EVERY_CASE"))
PART = 3  # one in so many wrong answers that make no mistake of their own


@dataclass(frozen=True)
class Answer:
    """One answer; of a right one `hint` is empty."""

    exercise: str
    name: str
    source: str
    place: str
    hint: str = ""
    same_as: str = ""
    slow: float = 0
    makes: bool = False  # the fingerprint of its mistake

    @property
    def id(self) -> str:
        """Its name in a test run."""
        return f"{self.exercise}-{self.name}"

    @property
    def mistake(self) -> str:
        """The name of the mistake that it makes: its own, or that of a sibling."""
        return self.same_as or self.name


@cache
def right() -> list[Answer]:
    """The right answers, by exercise and name."""
    return [_from_file(path) for path in sorted(HERE.glob("*/right/*.py"))]


@cache
def wrong() -> list[Answer]:
    """The wrong answers, by exercise and name."""
    files = [_from_file(path) for path in HERE.glob("*/wrong/*.py")]
    rows = [row for path in HERE.glob("*/wrong/rows.toml") for row in _rows(path)]
    return sorted(files + rows, key=lambda answer: (answer.exercise, answer.name))


@cache
def few() -> frozenset[Answer]:
    """Of each exercise one right answer, and two wrong ones, which differ."""
    kept, counts = set(), Counter()
    for answer in right() + wrong():
        kind = answer.exercise, bool(answer.hint)
        plain = not answer.slow and not answer.same_as
        if plain and counts[kind] < 1 + bool(answer.hint):
            kept.add(answer)
            counts[kind] += 1
    return frozenset(kept)


def is_taken(answer: Answer, part: int = PART) -> bool:
    """True for what makes a mistake of its own, the few, and one in `part` others."""
    return EVERY or answer.makes or answer in few() or drawn(answer) // 18 % part == 0


def drawn(answer: Answer) -> int:
    """A number that depends on the answer alone."""
    return zlib.crc32(answer.id.encode())


@cache
def unseen(exercise: str) -> dict[str, dict]:
    """Answers from the task's text alone: rows by name, under `right` and `wrong`.

    Under `undecided` are those that came as wrong ones, and why the text allows them.
    Of a new exercise there may be none yet.
    """
    path = folder(exercise) / "unseen.toml"
    rows = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {"right": {}, "wrong": {}} | rows


def judged(exercise: str) -> dict[str, list]:
    """Which hints to its unseen answers people have read, and whether they fit."""
    path = folder(exercise) / "judged.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def folder(exercise: str) -> Path:
    """Where the answers to an exercise are."""
    return HERE / folders.folder_name(exercise)


def _exercise(path):
    """The exercise of a file in its `right/` or `wrong/`."""
    return folders.exercise_of(path.parents[1].name)


def _place(path):
    return str(path.relative_to(HERE.parents[1]))


def _from_file(path):
    place, source = _place(path), path.read_text()
    mistake, slow = _header(source, "mistake"), _header(source, "slow")
    hint = mistake or _header(source, "hint")
    assert hint or "wrong" not in path.parts, (
        f"{place} has no line `# mistake: ` with a hint for it; write one at its head"
    )
    return Answer(
        exercise=_exercise(path),
        name=path.stem,
        source=source,
        place=place,
        hint=hint or "",
        same_as=(_header(source, "same as") or "").removesuffix(".py"),
        slow=0 if slow is None else float(slow),
        makes=bool(mistake),
    )


def _header(source, name):
    """What a line at the head of an answer says, with those that go on, or None."""
    found = re.search(rf"^# {name}:? ?(.*(?:\n#   .*)*)$", source, re.MULTILINE)
    return found and found[1].replace("\n#  ", "")


def _rows(path):
    place = _place(path)
    for name, row in tomllib.loads(path.read_text()).items():
        yield Answer(
            exercise=_exercise(path),
            name=name,
            source=row.get("source") or _edited(path, name, row),
            place=f"{place}, [{name}]",
            hint=row.get("mistake") or row["hint"],
            same_as=row.get("same_as", ""),
            slow=row.get("slow", 0),
            makes="mistake" in row,
        )


def _edited(path, name, row):
    """The right answer that a row names, with its changes."""
    source = (path.parents[1] / f"right/{row['right']}.py").read_text()
    return edited(source, row, f"{_place(path)}, [{name}]")


def edited(source: str, row: dict, place: str) -> str:
    """A source with the changes of a row."""
    source = f"\n{source}"
    for edit in row.get("edits", [row]):
        old, new = f"\n{edit['old']}", f"\n{edit['new']}"
        count = source.count(old)
        assert count == 1, (
            f"{place}: its `old` stands {count} times in the right answer, not once"
        )
        source = source.replace(old, new)
    return source[1:]
