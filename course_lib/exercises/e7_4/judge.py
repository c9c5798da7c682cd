"""Exercise 7.4, decided: who left the way of the others, by four recorded reports."""

from collections.abc import Iterator

from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.text import many

_TEXTS = Texts("7.4")
# rank and line of the programs in the notebook
CULPRITS = {"A": (0, 13), "B": (3, 10), "C": (4, 11), "D": (2, 11)}
_WORLD = {"A": 4, "B": 5, "C": 5, "D": 4}  # ranks of each launch
# the hints on ranks and on lines
_RANKS = {"A": "A rank", "B": "B rank", "C": "C rank", "D": "D rank"}
_LINES = {"A": "A line", "B": "B line", "C": "C line", "D": "D line"}


def cases(seed: int) -> Iterator[Case]:
    """Yield the reports that the notebook shows, whatever the seed."""
    yield Case({}, expected=CULPRITS)


def judge(case: Case, seen) -> str:
    """Compare rank and line of each report, the rank first."""
    returned, expected = seen[0]["returned"], case.expected
    if not isinstance(returned, dict) or returned.keys() != expected.keys():
        raise _TEXTS.wrong("no answers", returned=shown(returned))
    for name, pair in expected.items():
        found = returned[name]
        if not isinstance(found, list | tuple) or [type(x) for x in found] != [int] * 2:
            raise _TEXTS.wrong("no pair", name=name, returned=shown(found))
        fill = {"name": name, "rank": found[0], "line": found[1]}
        if found[0] not in range(_WORLD[name]):
            raise _TEXTS.wrong("no rank", last=_WORLD[name] - 1, **fill)
        if found[0] != pair[0]:
            raise _TEXTS.wrong("other rank", why=_RANKS[name], **fill)
        if found[1] != pair[1]:
            raise _TEXTS.wrong("other line", why=_LINES[name], **fill)
    return many(len(expected), "report")
