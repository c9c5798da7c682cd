"""One cell of a notebook, read once, in whatever shape a file holds it."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property

_NAME = re.compile(r"(answer|check)-(\d+)-(\d+[a-z]?)(-[a-z-]+)?")


@dataclass(frozen=True)
class Cell:
    """A cell; what its file lacks, or has in another type, is empty here.

    `raw` is the cell as its file has it, for those who write it back.
    """

    id: str
    kind: str
    source: str
    metadata: Mapping
    raw: Mapping = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_file(cls, raw: Mapping) -> "Cell":
        """Read a cell as JSON gives it."""
        lines = raw.get("source")
        lines = lines if isinstance(lines, list) else [lines]
        source = "".join(map(_text, lines))
        kind = _text(raw.get("cell_type"))
        return cls(_text(raw.get("id")), kind, source, entries(raw, "metadata"), raw)

    @cached_property
    def plain(self) -> str:
        """The source without what no reader sees: blanks at ends of lines and cell."""
        return "\n".join(line.rstrip() for line in self.source.strip().split("\n"))

    @property
    def is_code(self) -> bool:
        """False for texts."""
        return self.kind == "code"

    @cached_property
    def grader(self) -> dict:
        """The metadata of nbgrader."""
        return entries(self.metadata, "nbgrader")

    @property
    def course(self) -> dict:
        """The metadata of this course."""
        return entries(self.metadata, "course")

    @property
    def tags(self) -> list[str]:
        """The tags in its metadata."""
        tags = self.metadata.get("tags")
        return tags if isinstance(tags, list) else []

    @cached_property
    def grade_id(self) -> str:
        """The id by which graders know it, which outlives copies of the cell."""
        return _text(self.grader.get("grade_id"))

    @cached_property
    def role(self) -> str:
        """`check`, `answer`, `locked` or `given` for a cell of code, else `text`."""
        if not self.is_code:
            return "text"
        if self.grader.get("solution") is True:
            return "answer"
        if self.grader.get("grade") is True:
            return "check"
        return "locked" if self.grader.get("locked") is True else "given"


def _text(value):
    return value if isinstance(value, str) else ""


def entries(holder: Mapping, key: str) -> dict:
    """Return the dict under a key, an empty one where there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def free_id(name: str, taken: Container[str]) -> str:
    """Return this id, with a number at its end if it is taken."""
    candidate, number = name, 2
    while candidate in taken:
        candidate = f"{name[:58]}-{number}"  # at most 64 characters are allowed
        number += 1
    return candidate


def role_named(name: str) -> str:
    """Return what an id says of its cell: `answer`, `check`, or nothing."""
    parts = _NAME.fullmatch(name)
    return parts[1] if parts else ""


def exercise_named(name: str) -> str:
    """Return the exercise that an id names: `4.5a` for answer-4-5a, or nothing."""
    parts = _NAME.fullmatch(name)
    return f"{parts[2]}.{parts[3]}" if parts else ""
