"""The command `grade`, from its call to its exit status."""

import contextlib
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

from course_lib.errors import CourseError, UsageError
from course_lib.grading import arguments, grades
from course_lib.grading.desk import Desk
from course_lib.grading.gradebook import Gradebook
from course_lib.grading.handed_in import submissions
from course_lib.grading.notebook.assignment import NO_EXERCISE, load
from course_lib.grading.report import summary
from course_lib.grading.run import sandbox
from course_lib.grading.run.grader import Grader, Options

_FAILED, _INTERRUPTED = 2, 130  # exit statuses


def main(args: list[str]) -> int:
    """Grade what was named, show and write the grades; the exit status comes back."""
    asked = arguments.parse(args, jobs=_Here.jobs)
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
    without_sandbox, grader = staticmethod(sandbox.missing), Grader


def _place(address):
    """Where notebooks run: here, or on the workers of a Dask scheduler."""
    if address is None:
        return contextlib.nullcontext(_Here)
    try:
        from course_lib.grading.run.cluster import Cluster
    except ImportError as error:
        raise UsageError(
            f"--cluster needs {error.name}. Install it here and where the workers run:"
            ' pip install -c constraints.txt -e ".[cluster]"'
        ) from None
    return Cluster(address)


def _report(desk, asked):
    """Show and write what was found; the exit status comes back."""
    from rich.console import Console

    from course_lib.grading.report import files, pages, terminal

    found, others = _exercises(desk.graded())
    written = True
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
        terminal.show(found, Console())
    if others:
        print(f"left out, since they are no exercises: {others}", file=sys.stderr)
    for note in _notes(desk):
        print(note, file=sys.stderr)
    if desk.interrupted:
        return _INTERRUPTED
    failed = any(grade.status == grades.FAILED for grade in found)
    return _FAILED if failed or not written else 0


def _exercises(found):
    """The grades to report, and the other notebooks of people who did exercises."""
    learners = {grade.learner for grade in found if grade.tasks}
    kept, others = [], []
    for grade in found:
        other = grade.message == NO_EXERCISE and grade.learner in learners
        (others if other else kept).append(grade)
    return kept, ", ".join(summary.line(grade.source) for grade in others)


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
    return Options(
        limits=arguments.limits(asked),
        sandbox=not why,
        canary=asked.canary,
        hidden=_hidden(asked),
    )
