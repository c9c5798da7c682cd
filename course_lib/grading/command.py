"""Grade notebooks that were handed in: files, folders, zips of a learning platform."""

import argparse
import contextlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from course_lib.errors import CourseError, UsageError
from course_lib.grading import gradebook, grades, jail, submissions
from course_lib.grading.assignment import load
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
    "file": (_MB, "MB in a file; in the sandbox in all files together"),
}


def main(args: list[str]) -> int:
    """Grade what was named, show and write the grades; the exit status comes back."""
    asked = _arguments(args)
    try:
        assignments = load(asked.exercises)
        found = submissions.collect(asked.paths)
        options = _options(asked)
    except CourseError as error:
        print(error, file=sys.stderr)
        return _FAILED
    setting = [one.content for one in assignments]
    book = Gradebook(asked.state, [*setting, repr(options).encode()])
    desk = _Desk(book, again=asked.again)
    with Grader(assignments, options) as grader:
        try:
            desk.grade_all(found, grader, asked.jobs)
        except KeyboardInterrupt:
            desk.interrupted = True
            grader.close()  # at once; the threads end with their runs
    return _report(desk, asked)


class _Desk:
    """Grades submissions, several at a time, and keeps what is finished."""

    def __init__(self, book, *, again):
        self.book, self.again, self.interrupted = book, again, False
        self.found, self.known, self.unkept = {}, 0, ""

    def grade_all(self, handed, grader, jobs):
        """Grade all that is not finished yet."""
        from course_lib.grading.table import Progress

        with Progress(len(handed)) as progress, _pool(jobs) as pool:

            def grade(submission):
                progress.start(submission.source)
                return grader.grade(submission)

            tickets = {}
            for submission in handed:
                place = self.book.place(submission)
                known = None if self.again else gradebook.find(place)
                if known:
                    self.known += 1
                    self._take(submission, known, progress)
                else:
                    tickets[pool.submit(grade, submission)] = submission, place
            for ticket in as_completed(tickets):
                submission, place = tickets[ticket]
                grade = ticket.result()
                self._keep(grade, place)
                self._take(submission, grade, progress)

    def _take(self, submission, grade, progress):
        self.found[submission] = grade
        progress.finish(submission.source, grade)

    def _keep(self, grade, place):
        try:
            gradebook.keep(grade, place)
        except OSError as error:
            self.unkept = f"{error.strerror}: {place.parent}"


@contextlib.contextmanager
def _pool(jobs):
    """Threads; when the block is left early, what has not begun is not begun."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _report(desk, asked):
    """Show and write what was found; the exit status comes back."""
    from rich.console import Console

    from course_lib.grading import files, pages, table

    found = list(desk.found.values())
    written = True
    if asked.json == "-":
        print(files.as_json(found))
    elif found:
        table.show(found, Console())
    for note in _notes(desk):
        print(note, file=sys.stderr)
    for write, place in (
        (files.write_json, asked.json if asked.json != "-" else None),
        (files.write_csv, asked.csv),
        (pages.write_pages, asked.html),
    ):
        if place:
            written &= _written(write, found, Path(place))
    if desk.interrupted:
        return _INTERRUPTED
    failed = any(grade.status == grades.FAILED for grade in found)
    return _FAILED if failed or not written else 0


def _written(write, found, place):
    try:
        write(found, place)
    except OSError as error:
        print(f"cannot write {place}: {error.strerror or error}", file=sys.stderr)
        return False
    print(f"written: {place}", file=sys.stderr)
    return True


def _notes(desk):
    if desk.known:
        yield f"{desk.known} graded before, and not run again (--again does)"
    if desk.unkept:
        yield f"grades are not kept for a later run: {desk.unkept}"
    if desk.interrupted:
        yield "interrupted: the same command goes on where it was"


def _arguments(args):
    parser = argparse.ArgumentParser(
        "python -m course_lib grade",
        description=__doc__,
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, flag = parser.add_argument, {"action": "store_true"}
    add("paths", nargs="+", type=Path, metavar="PATH")
    add("-j", "--jobs", type=_count, default=_usual_jobs(), metavar="N", help="at once")
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
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _count(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _usual_jobs():
    # a check starts ranks of its own
    return max(1, min(8, (os.cpu_count() or 2) // 2))


def _options(asked):
    """How to run.

    Errors: `UsageError` if a sandbox was asked for that cannot be made.
    """
    why = "--no-sandbox" if asked.sandbox is False else jail.missing()
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
        hidden=tuple(str(path.absolute()) for path in asked.paths if path.is_dir()),
    )
