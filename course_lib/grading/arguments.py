"""What a call of `grade` asks for."""

import argparse
import contextlib
import math
from pathlib import Path

from course_lib.grading.run.limits import Limits

_ROOT = Path(__file__).parents[2]
_ABOUT = (
    "Grade notebooks that were handed in: files, folders, zips of a learning platform."
)
_STATUS = """exit status: 0 if all were graded; 2 if the grader could not do its work
(that is no learner's fault, and gives no points); 130 if it was interrupted. The same
command goes on where it was: what is finished is not run twice."""
_MB = 10**6
_LIMITS = {  # name: unit, what it limits
    "cell": (1, "seconds for a cell that has no limit of its own"),
    "total": (1, "seconds for a whole notebook"),
    "memory": (_MB, "MB of memory, of all its processes together"),
    "processes": (1, "processes at the same time"),
    "output": (_MB, "MB of what one cell shows that are kept"),
    "file": (_MB, "MB in a file; in the sandbox of each folder that can be written"),
}


def parse(args: list[str], *, jobs: int) -> argparse.Namespace:
    """Return what a call asks for; `jobs` notebooks at the same time are usual."""
    parser = argparse.ArgumentParser(
        "python -m course_lib grade",
        description=_ABOUT,
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    named = "notebook, folder or zip (default: your own exercises, here or in work/)"
    add("paths", nargs="*", type=Path, metavar="PATH", help=named)
    many = f"notebooks at the same time, at most one for each core (default: {jobs})"
    add("-j", "--jobs", type=_count, metavar="N", help=many)
    add(
        "--cluster",
        metavar="ADDRESS",
        help="run on the workers of this Dask scheduler, each --nthreads at once",
    )
    add("--json", metavar="FILE", help="write the grades; - is the standard output")
    add("--csv", type=Path, metavar="FILE", help="write a table for a spreadsheet")
    add("--html", type=Path, metavar="DIR", help="write a page for each learner")
    add("--again", action="store_true", help="run again what is finished")
    canary = "each check that passed must fail with the stub"
    add("--canary", action="store_true", help=canary)
    add(
        "--sandbox",
        action=argparse.BooleanOptionalAction,
        help="run in bubblewrap, which is usual where it works",
    )
    add(
        "--exercises",
        type=Path,
        default=_ROOT / "exercises",
        metavar="DIR",
        help="the notebooks as they were handed out; else those of this course",
    )
    add(
        "--state",
        type=Path,
        default=Path(".grades"),
        metavar="DIR",
        help="where finished grades are kept; else .grades here",
    )
    group = parser.add_argument_group("limits for one notebook")
    for name, (unit, about) in _LIMITS.items():
        usual = f"{about} (default: {getattr(Limits(), name) / unit:g})"
        group.add_argument(f"--{name}", type=_positive, metavar="N", help=usual)
    asked = parser.parse_args(args)
    asked.paths = asked.paths or [_own(parser)]
    return asked


def _own(parser):
    """The exercises of whoever calls from a clone: in its `work/`, if it is there."""
    for place in (Path("work", "exercises"), Path("exercises")):
        if place.is_dir():
            return place
    parser.error("name what to grade: there are no exercises/ here")


def limits(asked: argparse.Namespace) -> Limits:
    """Return the limits that are asked for, the usual ones where none is."""
    usual, given = Limits(), {}
    for name, (unit, _) in _LIMITS.items():
        value = getattr(asked, name)
        if value is not None:
            given[name] = type(getattr(usual, name))(value * unit)
    return Limits(**given)


def _positive(text):
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")


def _count(text):
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
