"""Check an exercise: what an answer does, held against what a right one does."""

import re
import textwrap
from functools import partial

from course_lib.cells import after_cell
from course_lib.display import (
    colored,
    in_notebook,
    progress_line,
    prose,
)
from course_lib.errors import CourseError, LaunchInterrupted, UsageError
from course_lib.exercises import baseline, fingerprints, hints, progress
from course_lib.exercises.attempt import SECONDS, Attempt, Broken, Failed, Missing
from course_lib.exercises.catalog import exercises, find_exercise
from course_lib.exercises.exercise import Exercise, Wrong
from course_lib.exercises.texts import Texts
from course_lib.text import listed
from course_lib.tracebacks import show_errors

_WIDTH = 80  # columns; a cell would break longer lines inside a word
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Unsolved(CourseError):
    """A check that did not find the answer right; a notebook shows its message.

    `found` is its sentence with the lines of code, `hint` what to do about that.
    """

    def __init__(self, found: str, *help: str, hint: str = ""):
        super().__init__("\n".join([found, *help]))
        self.found, self.hint = found, hint

    def _render_traceback_(self):
        head, *rest = str(self).split("\n")
        first = "\n".join(_wrap(head))
        rest = [part for line in rest for part in _wrap(line)]
        # no colour: a theme's own text stands out best from its red background
        return [f"{_BOLD}{first}{_PLAIN}", *rest]


def _wrap(line):
    """Lines of prose that fit a cell; lines of code as they are."""
    return [line] if line.startswith(" ") or not line else textwrap.wrap(line, _WIDTH)


class NotYet(Unsolved):
    """The answer is wrong: what it does, what a right one does, a hint."""


class NotStarted(Unsolved):
    """The answer is still the stub."""


class Right:
    """The answer is right; shows what was proven."""

    def __init__(self, exercise: Exercise, proof: str, note: str = ""):
        self.text = f"✓ {exercise.id} right: {proof}"
        self.note = note

    def __repr__(self):
        return "\n".join(filter(None, (self.text, self.note)))

    def _repr_html_(self):
        mark = f"<b>{colored('✓')}{prose(self.text[1:])}</b>"
        return f"{mark}<br>{prose(self.note)}" if self.note else mark


def check(exercise: str = "", answer=..., *, timeout: float | None = None) -> Right:
    """Test the answer to an exercise: `cl.check("4.1", shard_indices)`.

    The answer runs in fresh ranks, each launch for at most `timeout` seconds (20). What
    it computes is compared and what it costs, never how it is written.

    Errors: `NotYet` that says which rank differs, and a hint for that mistake;
    `NotStarted` while the answer is the stub; `UsageError` for an unknown exercise;
    `CourseError` if the check itself fails;
    `LaunchInterrupted` if the cell is interrupted.
    """
    try:
        task = find_exercise(exercise)
        _refuse_unless_function(task, answer)
        seconds = SECONDS if timeout is None else timeout
        return _judge(task, Attempt(answer, timeout=seconds))
    except LaunchInterrupted:
        raise  # it tells where each rank was
    except KeyboardInterrupt:
        raise LaunchInterrupted(f"{exercise}: the check was interrupted") from None


def _refuse_unless_function(exercise, answer):
    if answer is ...:
        raise UsageError(
            f"exercise {exercise.id} checks a function. Give its name too, as in"
            f' cl.check("{exercise.id}", answer)'
        )
    if not callable(answer):
        raise UsageError(
            f"exercise {exercise.id} checks a function, found {answer!r:.60} of type"
            f" {type(answer).__name__}. Give its name alone, without brackets after it."
        )


def _judge(task, attempt):
    """`Right`, or the error that says what is not."""
    try:
        proof = _solved(task, attempt)
    except Missing:
        progress.note(task.id, "not started")
        raise NotStarted(
            f"○ {task.id} not started: {attempt.name} still raises"
            " NotImplementedError.\nWrite it in the cell above, run that cell, then"
            " this one."
        ) from None
    except Broken as broken:
        raise CourseError(
            f"the check of {task.id} itself failed: {broken}\nThis is no mistake of"
            " your answer. Please report this."
        ) from None
    except Wrong as wrong:
        progress.note(task.id, "not yet")
        hints.offer(task)
        raise _not_yet(task, wrong) from None
    lost = progress.note(task.id, "right")
    note = f"(this will not outlive the kernel: {lost})" if lost else ""
    return Right(task, proof, note)


def _solved(task, attempt):
    """What is proven of an answer; a line tells of the cases, a picture of one."""
    waiting = _waiting(task, attempt.timeout)
    try:
        with progress_line(waiting) as show:
            attempt.tick = lambda seconds: show(f"{waiting}; this one runs {seconds} s")
            return solve(task, attempt)
    finally:
        if attempt.picture and in_notebook():
            after_cell(partial(_show, attempt.picture))


def solve(task: Exercise, attempt: Attempt, seed: int = 0) -> str:
    """Return what is proven of an answer by the cases of a seed, in order.

    Errors: `Wrong` with the number of the case that shows it, and the hint of the known
    mistake that it is nearest to; those of `Attempt`.
    """
    proofs = []
    with baseline.settled():
        for number, case in enumerate(task.cases(seed)):
            try:
                proofs.append(_one_case(task, attempt, case))
            except Wrong as wrong:
                wrong.case = number
                if not seed:
                    known = fingerprints.nearest(task.id, fingerprints.of(wrong))
                    wrong.hint = known["hint"] if known else wrong.hint
                raise
    return Texts(task.id).proof.format(listed(dict.fromkeys(proofs)))


def _one_case(task, attempt, case):
    try:
        seen = attempt.run(task.observe, case)
    except Failed as failed:
        if task.failed:
            return task.failed(case, failed)
        raise
    first = attempt.picture
    attempt.picture = partial(task.draw, case, seen) if task.draw else None
    proof = task.judge(case, seen)
    attempt.picture = first or attempt.picture  # unless another case fails
    return proof


def _waiting(exercise, timeout):
    seconds = str(timeout).removesuffix(".0")
    return f"{exercise.id}: checking …, each run stops after {seconds} s"


def _not_yet(exercise, wrong):
    lines = [f"✗ {exercise.id} not yet: {wrong}", *wrong.lines]
    hint = [f"Hint: {wrong.hint}"] if wrong.hint else []
    more = f'More help: cl.hint("{exercise.id}")'
    return NotYet("\n".join(lines).strip(), "", *hint, more, hint=wrong.hint)


def _show(picture):
    """Draw what the ranks did."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    axes = picture()
    if axes is not None:
        display(axes.figure)
        plt.close(axes.figure)


_CALL = re.compile(r"""check\(\s*["']([\w.]+)["']\s*,\s*(\w+)\s*[,)]""")


def _show_name_error(shell, kind, error, trace, tb_offset=None):
    """Let a check whose answer cell did not run say so, in place of a NameError."""
    call = _CALL.search(shell.user_ns["In"][-1])  # the cell that runs
    if call and call[2] == error.name and call[1] in exercises():
        told = NotStarted(
            f"○ {call[1]} not started: there is no {error.name} in this kernel yet."
            "\nRun the cell above that defines it, then this one."
            " After a restart: Run › Run All Above Selected Cell."
        )
        error._render_traceback_ = told._render_traceback_
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


if in_notebook():
    show_errors(NameError, _show_name_error)
