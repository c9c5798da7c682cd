"""How long grading takes, beside nbgrader's, and the memory of a long run."""

import itertools
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks import nbgrader, report, watching
from benchmarks.classroom import CASES, WAYS, Case, Classroom, Wrong
from course_lib.grading.run import sandbox

ROUNDS = 3
MANY = 300  # submissions in the long run
EACH = 1.0  # seconds for a submission with plain checks, two at once
GROWTH = 1.1  # times the memory that the long run had early
_INTRODUCTION = """# Grading

The same submissions, all of them right, graded by `python -m course_lib grade` and by
`nbgrader autograde` {version}, which grades one after the other; alternating, {rounds}
times each.
Seconds: median (smallest to largest). A submission costs the difference between
grading many and grading few, divided; fixed is what is left. Ratio: to nbgrader.
"""


def run(rounds: int | None = None) -> str:
    """Measure both cases and the long run; a report in Markdown comes back.

    Errors: `NbgraderFailed` without nbgrader.
    """
    nbgrader.refuse_missing()
    boxed = {"one", "two"} if _boxed() else set()
    ways = [way for way in WAYS if way in {"nbgrader", "open"} | boxed]
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        rooms = {}
        for name, case in CASES.items():
            rooms[name] = Classroom(Path(folder) / name, case)
            rooms[name].release()
        times = measure(rooms, ways, rounds or ROUNDS)
        long = watch(rooms["plain"], MANY)
    return describe(times, long)


def _boxed():
    return not sandbox.missing()


def measure(rooms: Mapping[str, Classroom], ways: list[str], rounds: int) -> dict:
    """Seconds by way, name of the case and number of submissions, one per round."""
    times = {}
    for turn in range(rounds):
        first = turn % len(ways)
        for name, room in rooms.items():
            for count in (room.case.few, room.case.many):
                for way in ways[first:] + ways[:first]:
                    turns = f"round {turn + 1} of {rounds}"
                    report.say(f"grading: {turns}, {name}: {count} by {way}")
                    seconds = room.grade(way, count)
                    times.setdefault((way, name, count), []).append(seconds)
    return times


def watch(room: Classroom, count: int) -> watching.Watched:
    """Grade `count` submissions in one command, two at once, and look at its memory.

    Errors: `Wrong` unless all get all points.
    """
    report.say(f"grading: {count} submissions in one command")
    options = WAYS["two" if _boxed() else "open"][1]
    folder = room.folder / "long"
    found = watching.watch(room.command(folder, count, options), log=folder / "log")
    if found.status:
        raise Wrong(f"{count} submissions: {(folder / 'log').read_text()[-4000:]}")
    room.refuse(room.points(folder), count)
    return found


def fit(few: float, many: float, case: Case) -> tuple[float, float]:
    """Seconds for one submission, and those that do not depend on their number."""
    each = (many - few) / (case.many - case.few)
    return each, few - case.few * each


def fits(times: dict, way: str, name: str) -> list[tuple[float, float]]:
    """What `fit` finds in each round."""
    case = CASES[name]
    pairs = zip(times[way, name, case.few], times[way, name, case.many], strict=True)
    return [fit(few, many, case) for few, many in pairs]


def describe(times: dict, long: watching.Watched) -> str:
    """The report: a table for each case, the long run, the goal, the conditions."""
    rounds = len(next(iter(times.values())))
    parts = [_INTRODUCTION.format(version=nbgrader.VERSION, rounds=rounds)]
    parts += [_table(times, name) for name in CASES]
    parts += [_tell(long), _goals(times, long), report.conditions()]
    return "\n".join(parts)


def _table(times, name):
    case = CASES[name]
    head = [case.title, "a submission", "ratio", "fixed", "ratio"]
    ways = [way for way in WAYS if (way, name, case.few) in times]
    columns = {way: list(zip(*fits(times, way, name))) for way in ways}
    rows = []
    for way in ways:
        cells = zip(columns[way], columns["nbgrader"])
        pairs = [(_seconds(own), _ratio(own, peer)) for own, peer in cells]
        rows.append([WAYS[way][0], *itertools.chain(*pairs)])
    note = f"{case.few} and {case.many} submissions.\n"
    return f"{report.table(head, rows)}\n{note}"


def _seconds(values):
    low, high = min(values), max(values)
    return f"{statistics.median(values):.2f} ({low:.2f} to {high:.2f})"


def _ratio(own, peer):
    return f"{statistics.median(own) / statistics.median(peer):.2f} ×"


def _goals(times, long):
    boxed = ("two", "plain", CASES["plain"].few) in times
    fitted = fits(times, "two" if boxed else "open", "plain")
    each = statistics.median(each for each, _ in fitted)
    early, late = _memory(long)
    growth = late.bytes / max(early.bytes, 1)
    less = f"at most {EACH:.1f} s a submission with plain checks, two at once"
    flat = f"memory at most {GROWTH} times as much at the end of {MANY} submissions"
    rows = [
        [less, f"{each:.2f} s", _met(each <= EACH)],
        [flat, f"{growth:.2f} ×", _met(growth <= GROWTH)],
    ]
    return report.table(["goal", "found", "met"], rows)


def _met(true):
    return "yes" if true else "no"


def _memory(long):
    """Memory early, when all is imported, and at the end."""
    return watching.middle(long.looks, 0.1, 0.2), watching.middle(long.looks, 0.9, 1.0)


def _tell(long):
    early, late = map(_mb, _memory(long))
    most = max((one.bytes for one in long.looks), default=0)
    return (
        f"{MANY} submissions with plain checks in one command, two at once:"
        f" {long.seconds:.0f} s.\nMemory of all its processes together (PSS, medians):"
        f" {early} in\nthe second tenth of the time, {late} in the last, at most"
        f" {most / 1e6:,.0f} MB.\n"
    )


def _mb(look):
    return f"{look.bytes / 1e6:,.0f} MB in {look.processes} processes"
