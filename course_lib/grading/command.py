"""Grade notebooks that were handed in: files, folders, zips of a learning platform."""

import argparse
import contextlib
import math
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

from course_lib.errors import CourseError, UsageError
from course_lib.grading import grades, jail, submissions
from course_lib.grading.assignment import load
from course_lib.grading.desk import Desk
from course_lib.grading.gradebook import Gradebook
from course_lib.grading.grader import Grader, Options
from course_lib.grading.limits import Limits

_ROOT = Path(__file__).parents[2]
_FAILED, _INTERRUPTED = 2, 130  # exit statuses
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


def main(args: list[str]) -> int:
    """Grade what was named, show and write the grades; the exit status comes back."""
    asked = _arguments(args)
    sys.stdout.reconfigure(errors="replace")  # a terminal may not know ✓
    try:
        with _interruptible():
            return _grade(asked)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED


@contextlib.contextmanager
def _interruptible():
    """Let signals that end this process be as Ctrl-C, so that nothing is left."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _grade(asked):
    with contextlib.ExitStack() as stack:
        try:
            assignments = load(asked.exercises)
            found = submissions.collect(asked.paths)
            place = stack.enter_context(_place(asked.cluster))
            options = _options(asked, place)
        except CourseError as error:
            print(error, file=sys.stderr)
            return _FAILED
        setting = [one.content for one in assignments]
        settled = repr(replace(options, hidden=())).encode()
        book = Gradebook(asked.state, [*setting, settled])
        desk = Desk(book, again=asked.again)
        with place.grader(assignments, options) as grader:
            try:
                desk.grade_all(found, grader, asked.jobs or place.jobs)
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is heard already
                desk.interrupted = True
                grader.close()  # at once; the threads end with their runs
    return _report(desk, asked)


class _Here:
    """This machine, as a place where notebooks run."""

    jobs = max(1, min(8, (os.cpu_count() or 2) // 2))  # a check starts ranks of its own
    without_sandbox, grader = staticmethod(jail.missing), Grader


def _place(address):
    """Where notebooks run: here, or on the workers of a Dask scheduler."""
    if address is None:
        return contextlib.nullcontext(_Here)
    try:
        from course_lib.grading.cluster import Cluster
    except ImportError as error:
        raise UsageError(
            f"--cluster needs {error.name}. Install it here and where the workers run:"
            ' pip install -c constraints.txt -e ".[cluster]"'
        ) from None
    return Cluster(address)


def _report(desk, asked):
    """Show and write what was found; the exit status comes back."""
    from rich.console import Console

    from course_lib.grading import files, pages, table

    found, written = desk.graded(), True
    for write, place in (
        (files.write_json, asked.json if asked.json != "-" else None),
        (files.write_csv, asked.csv),
        (pages.write_pages, asked.html),
    ):
        if place and desk.interrupted and Path(place).exists():
            print(f"left as it was, since this is not all: {place}", file=sys.stderr)
        elif place:
            written &= _written(write, found, Path(place))
    if asked.json == "-":
        print(files.as_json(found), end="")
    elif found:
        table.show(found, Console())
    for note in _notes(desk):
        print(note, file=sys.stderr)
    if desk.interrupted:
        return _INTERRUPTED
    failed = any(grade.status == grades.FAILED for grade in found)
    return _FAILED if failed or not written else 0


def _hidden(asked):
    """What no notebook may see: what others handed in, and what they got."""
    with contextlib.suppress(OSError):  # the book says so when it cannot keep a grade
        asked.state.mkdir(parents=True, exist_ok=True)
    outputs = [asked.state, asked.html, asked.csv, asked.json]
    named = [*asked.paths, *(Path(one) for one in outputs if one)]
    # the folder of a file; the course itself is seen all the same, without the file
    found = {one if one.is_dir() else one.parent for one in named} | {*named}
    return tuple(sorted(str(one.resolve()) for one in found if one.exists()))


def _written(write, found, place):
    try:
        write(found, place)
    except (UsageError, OSError) as error:
        print(error, file=sys.stderr)
        return False
    print(f"written: {place}", file=sys.stderr)
    return True


def _notes(desk):
    if desk.known:
        yield f"{desk.known} unchanged since graded, and not run again (--again does)"
    if desk.unkept:
        yield f"grades are not kept for a later run: {desk.unkept}"
    if desk.interrupted:
        left, again = f"interrupted, {desk.left} not graded", " again" * desk.again
        goes_on = "begins anew" if desk.again else "goes on where it was"
        yield f"{left}{again}: the same command {goes_on}"


def _arguments(args):
    parser = argparse.ArgumentParser(
        "python -m course_lib grade",
        description=__doc__,
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, flag = parser.add_argument, {"action": "store_true"}
    add("paths", nargs="+", type=Path, metavar="PATH", help="notebook, folder or zip")
    many = (
        f"notebooks at the same time, at most one for each core (default: {_Here.jobs})"
    )
    add("-j", "--jobs", type=_count, metavar="N", help=many)
    add(
        "--cluster",
        metavar="ADDRESS",
        help="run on the workers of this Dask scheduler, each --nthreads at once",
    )
    add("--json", metavar="FILE", help="write the grades; - is the standard output")
    add("--csv", type=Path, metavar="FILE", help="write a table for a spreadsheet")
    add("--html", type=Path, metavar="DIR", help="write a page for each learner")
    add("--again", **flag, help="run again what is finished")
    add("--canary", **flag, help="each check that passed must fail with the stub")
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
    limits = parser.add_argument_group("limits for one notebook")
    for name, (unit, about) in _LIMITS.items():
        usual = f"{about} (default: {getattr(Limits(), name) / unit:g})"
        limits.add_argument(f"--{name}", type=_positive, metavar="N", help=usual)
    return parser.parse_args(args)


def _positive(text):
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")


def _count(text):
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")


def _options(asked, place):
    """How to run.

    Errors: `UsageError` if a sandbox was asked for that cannot be made.
    """
    why = "--no-sandbox" if asked.sandbox is False else place.without_sandbox()
    if asked.sandbox and why:
        raise UsageError(f"there is no sandbox: {why}")
    if why:
        print(
            f"without a sandbox ({why}): these notebooks can do what you can do. Grade"
            " only those of people whom you trust.",
            file=sys.stderr,
        )
    usual, given = Limits(), {}
    for name, (unit, _) in _LIMITS.items():
        value = getattr(asked, name)
        if value is not None:
            given[name] = type(getattr(usual, name))(value * unit)
    return Options(
        limits=Limits(**given),
        sandbox=not why,
        canary=asked.canary,
        hidden=_hidden(asked),
    )
