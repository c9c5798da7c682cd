"""An exercise, and a learner's answer to it, run in fresh ranks."""

import json
import multiprocessing
import re
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from course_lib.errors import LaunchError, UsageError
from course_lib.exercises import fingerprints
from course_lib.exercises.exercise import Case, Wrong
from course_lib.launching import failures, launcher, spec
from course_lib.launching.results import Results
from course_lib.stacks import Frame, is_learners

_FOLDED = re.compile(r"  \(\d+ more in ")  # a line on frames of libraries
_LINES = 3  # of an exception's message: PyTorch's can be long
SECONDS = 20.0  # for one launch; a rank that takes longer goes on for ever
STUCK = ("late", "stalled")  # kinds of a launch that would not have ended

_HINTS = json.loads((Path(__file__).parent / "failures.json").read_text("utf-8"))


class Failed(Wrong):
    """The answer raised, ended its rank, or did not end: where, and by which error."""

    failed = True

    def __init__(self, sentence, hint, lines, *, error: LaunchError):
        head = str(error).partition("\n\n")[0]
        clue = {"error": error.kind, "words": fingerprints.words(head)}
        super().__init__(sentence, hint, clue=clue)
        self.lines, self.error = lines, error


class Missing(Exception):
    """The answer is not written yet."""


class Broken(Exception):
    """The check failed by a fault of its own, in no line of the answer."""


class Attempt:
    """The answer to one exercise, which runs in fresh ranks."""

    def __init__(self, answer, *, timeout: float = SECONDS):
        self.answer, self.timeout = answer, timeout
        self.name = spec.name(answer)
        self.picture = None  # a function that draws, for the notebook
        self.tick = None  # told the seconds of a launch while it runs

    def run(self, observe: Callable, case: Case) -> Results:
        """What `observe(rank, world_size, answer, case.given)` returned on each rank.

        Errors: `Missing` for a stub, `Failed` with rank and line if a rank fails,
        `Broken` if it fails by a fault of the check.
        """
        launch = spec.check(
            _Named(observe, self.answer, self.name),
            args=(case.given,),
            world_size=case.world_size,
            trace=case.trace,
            timeout=self.timeout,
        )
        try:
            return launcher.run(
                replace(launch, own_time=True), quiet=True, tick=self.tick
            )
        except LaunchError as error:
            if error.kind == "NotImplementedError" and "(no message)" in str(error):
                raise Missing from None  # PyTorch's own have a message
            raise self._failure(error, alone=case.world_size == 1) from None
        except UsageError as error:
            raise Wrong(str(error)) from None  # it cannot be sent to the ranks

    def _failure(self, error, *, alone):
        """The failed launch as a mistake: its sentence, the learner's lines, a hint."""
        head, *lines = _shortened(str(error)).split("\n")
        # of one process only: nobody asked for a rank
        head = re.sub(r"^rank 0 of 1\b", _raiser(error) or self.name, head)
        lines = _learners_lines(lines)
        if re.search(rf"TypeError: (\S+\.)?{re.escape(self.name)}(\.\w+)?\(\) ", head):
            hint = "Keep the parameters of the function as the exercise gives them."
        else:
            hint = _of_message(head)
        hint = hint or _busy(error)
        # of a class or a partial no line stands in the stack if its call fails
        plain = isinstance(self.answer, types.FunctionType)
        if plain and not hint and _is_fault(error):
            return Broken(head.partition(" raised ")[2])
        hint = hint or ("" if alone else _HINTS["ended"].get(error.kind, ""))
        return Failed(head, hint, lines, error=error)


def _of_message(head):
    """What a message of PyTorch's means to who writes an exercise; "" if unknown."""
    hints = (hint for text, hint in _HINTS["raised"].items() if text in head)
    return next(hints, "")


def _raiser(error):
    """The learner's function that raised, by its name, or None."""
    places = re.findall(
        r'^  File "(.+?)", line \d+, in (\w+)$', error.details, re.MULTILINE
    )
    names = [name for file, name in places if is_learners(Frame(file, 0, ""))]
    return names[-1] if names else None


def _learners_lines(lines):
    """The lines of a message that show the learner's own code, if there are some."""
    lines = [line for line in lines if "cl.last_error()" not in line]
    if any("-->" in line for line in lines):
        lines = [line for line in lines if not _FOLDED.match(line)]
    return tuple(lines)


class _Named:
    """A function of ranks under the name of the learner's own, for messages."""

    def __init__(self, body, answer, name):
        # `func` as in functools.partial: if it cannot be sent, that is looked into
        self.body, self.func, self.__name__ = body, answer, name

    def __call__(self, rank, world_size, *args):
        if sys.platform == "linux":
            # what an answer starts without a start method is forked by every Python:
            # from 3.14 on it would start afresh, which may take too long
            multiprocessing.set_start_method("fork", force=True)
        return self.body(rank, world_size, self.func, *args)


def _shortened(text):
    """A message without colours, and without all but the first lines of a long one."""
    head, place, rest = re.sub(r"\x1b\[[0-9;]*m", "", text).partition("\n\n  ")
    lines = head.split("\n")
    if place and len(lines) > _LINES:
        head = "\n".join([*lines[:_LINES], "..."])
    return head + place + rest


def _is_fault(error):
    """True if a rank raised something, and no line of its stack is the learner's."""
    files = re.findall(r'^  File "(.+?)", line', error.details, re.MULTILINE)
    # a collective of the check fails if the answer made another one before it
    if error.kind.startswith(("RuntimeError", "Dist")) or failures.advice(str(error)):
        return False
    return bool(files) and not any(is_learners(Frame(file, 0, "")) for file in files)


def _busy(error):
    """The hint for a rank that waits for nobody and still does not end, or None."""
    ends = [frames[-1] for frames in error.where.values() if frames]
    if error.kind != "late" or ".wait(" in str(error):
        return None
    if ends and all(frame.function == "_shutdown" for frame in ends):
        return "The function has returned, but a thread that it started goes on."
    if any(map(is_learners, ends)):
        return "A rank is still busy in a line of yours, shown above. Does it end?"
    return None
