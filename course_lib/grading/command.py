"""The command `grade`, from its call to its exit status."""

import contextlib
import io
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

from course_lib.errors import CourseError, UsageError
from course_lib.grading import arguments, grades
from course_lib.grading.gradebook import Gradebook, GradingRun
from course_lib.grading.handed_in import submissions
from course_lib.grading.notebook.assignment import NO_EXERCISE, load_assignments
from course_lib.grading.report import summary
from course_lib.grading.run import sandbox
from course_lib.grading.run.grader import Grader, Options

_FAILED, _INTERRUPTED = 2, 130  # exit statuses


def main(args: list[str]) -> int:
    """Grade what was named, show and write the grades; return the exit status."""
    asked = arguments.parse(args, jobs=_Here.jobs)
    if isinstance(sys.stdout, io.TextIOWrapper):
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
            assignments = load_assignments(asked.exercises)
            handed = submissions.collect(asked.paths)
            place = stack.enter_context(_place(asked.cluster))
            options = _options(asked, place)
        except CourseError as error:
            print(error, file=sys.stderr)
            return _FAILED
        setting = [assignment.content for assignment in assignments]
        settled = repr(replace(options, hidden=())).encode()
        book = Gradebook(asked.state, [*setting, settled])
        run = GradingRun(book, again=asked.again)
        with place.grader(assignments, options) as grader:
            try:
                run.grade_all(handed, grader, asked.jobs or place.jobs)
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is heard already
                run.interrupted = True
                grader.close()  # at once; the threads end with their runs
    return _report(run, asked)


class _Here:
    """This machine, as a place where notebooks run."""

    jobs = max(1, min(8, (os.cpu_count() or 2) // 2))  # a check starts ranks of its own
    without_sandbox = staticmethod(sandbox.missing)
    grader = Grader


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


def _report(run, asked):
    """Show and write what was found; the exit status comes back."""
    from rich.console import Console

    from course_lib.grading.report import files, pages, terminal

    graded, others = _exercises(run.graded())
    written = True
    for write, place in (
        (files.write_json, asked.json if asked.json != "-" else None),
        (files.write_csv, asked.csv),
        (pages.write_pages, asked.html),
    ):
        if place and run.interrupted and Path(place).exists():
            print(f"left as it was, since this is not all: {place}", file=sys.stderr)
        elif place:
            written &= _written(write, graded, Path(place))
    if asked.json == "-":
        print(files.as_json(graded), end="")
    elif graded:
        terminal.show(graded, Console())
    if others:
        print(f"left out, since they are no exercises: {others}", file=sys.stderr)
    for note in _notes(run):
        print(note, file=sys.stderr)
    if run.interrupted:
        return _INTERRUPTED
    failed = any(grade.status == grades.FAILED for grade in graded)
    return _FAILED if failed or not written else 0


def _exercises(graded):
    """The grades to report, and the other notebooks of people who did exercises."""
    learners = {grade.learner for grade in graded if grade.tasks}
    exercises, others = [], []
    for grade in graded:
        other = grade.message == NO_EXERCISE and grade.learner in learners
        (others if other else exercises).append(grade)
    return exercises, ", ".join(summary.line(grade.source) for grade in others)


def _hidden(asked):
    """What no notebook may see: what others handed in, and what they got."""
    with contextlib.suppress(OSError):  # the book says so when it cannot keep a grade
        asked.state.mkdir(parents=True, exist_ok=True)
    outputs = [asked.state, asked.html, asked.csv, asked.json]
    paths = {*asked.paths, *(Path(output) for output in outputs if output)}
    # the folder of a file; the course itself is seen all the same, without the file
    paths |= {path.parent for path in paths if not path.is_dir()}
    return tuple(sorted(str(path.resolve()) for path in paths if path.exists()))


def _written(write, graded, place):
    try:
        write(graded, place)
    except (UsageError, OSError) as error:
        print(error, file=sys.stderr)
        return False
    print(f"written: {place}", file=sys.stderr)
    return True


def _notes(run):
    if run.known:
        yield f"{run.known} unchanged since graded, and not run again (--again does)"
    if run.unkept:
        yield f"grades are not kept for a later run: {run.unkept}"
    left = f"interrupted, {run.left} not graded"
    if run.interrupted and run.again:
        yield f"{left} again: the same command begins anew"
    elif run.interrupted:
        yield f"{left}: the same command goes on where it was"


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
