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
from course_lib.stacks import is_learners

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NO_MESSAGE = "(no message)"
_LINES = 3  # of an exception's message: PyTorch's can be long
SECONDS = 20.0  # for one launch; a rank that takes longer goes on for ever
_BY_ITSELF = ("exited", "left")  # kinds of a rank that ended without another one
# what PyTorch's frames below a line of the answer are in while they compute, with
# those of this package that note its operators; and where they wait
_COMPUTING = ("/torch/", "/course_lib/")
_WAITING = ("/distributed/", "/multiprocessing/", "/utils/data/")
STUCK = ("late", "stalled")  # kinds of a launch that would not have ended
BUSY = "The line shown above computes for too long. Does it end?"  # in PyTorch

_HINTS = json.loads((Path(__file__).parent / "failures.json").read_text("utf-8"))


class Failed(Wrong):
    """The answer raised, ended its rank, or did not end: where, and by which error."""

    failed = True

    def __init__(self, sentence, hint, lines, *, error: LaunchError):
        head = error.head.partition("\n\n")[0]
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
        self.name = spec.function_name(answer)
        self.picture = None  # a function that draws, for the notebook
        self.tick = None  # told the seconds of a launch while it runs

    def run(self, observe: Callable, case: Case) -> Results:
        """Return what `observe(rank, world_size, answer, given)` gave on each rank.

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
            return launcher.run_request(
                replace(launch, own_time=True), quiet=True, tick=self.tick
            )
        except LaunchError as error:
            mistake = self._mistake(error, ranks=case.world_size)
        except UsageError as error:  # it cannot be sent to the ranks
            mistake = Wrong(str(error))
        raise mistake

    def _mistake(self, error, *, ranks):
        """The failed launch as `Missing`, `Broken` or `Failed`."""
        if error.kind == "NotImplementedError" and error.text.startswith(_NO_MESSAGE):
            return Missing()  # PyTorch's own have a message
        hint = self._hint(error)
        # of a class or a partial no line stands in the stack if its call fails
        plain = isinstance(self.answer, types.FunctionType)
        if plain and not hint and _is_fault(error):
            return Broken(f"{error.kind}: {error.text}".partition("\n")[0])
        if not hint and (ranks > 1 or error.kind in _BY_ITSELF):
            hint = _HINTS["ended"].get(error.kind, "")
        head, *lines = self._shown(error, ranks)
        return Failed(head, hint, lines, error=error)

    def _hint(self, error):
        """What to do about an error whose cause its message tells; "" if unknown."""
        called = error.text.partition("() ")[0]
        if error.kind == "TypeError" and self.name in called.split("."):
            return "Keep the parameters of the function as the exercise gives them."
        what = error.what.partition("\n")[0]
        hints = (hint for text, hint in _HINTS["raised"].items() if text in what)
        return next(hints, "") or _busy(error)

    def _shown(self, error, ranks):
        """The lines of a message, without colours, and with the start of a long one."""
        head = error.head
        if ranks == 1 and error.rank is not None:  # nobody asked for a rank
            who, own = error.raiser or self.name, f"before {self.name} returned"
            what = error.what.replace(own, "before it returned")
            head = f"{who} {what if who == self.name else error.what}"
        lines = head.split("\n")
        place = "\n".join(error.lines) or error.folded
        if place and len(lines) > _LINES:
            lines = [*lines[:_LINES], "..."]
        parts = filter(None, ["\n".join(lines), place, "\n".join(error.notes)])
        return _COLOURS.sub("", "\n\n".join(parts)).split("\n")


def _computes(frames):
    """True if a line of the learner's is in a function of PyTorch that computes."""
    own = [number for number, frame in enumerate(frames) if is_learners(frame)]
    below = [frame.file for frame in frames[own[-1] + 1 :]] if own else []
    return bool(below) and all(
        any(place in file for place in _COMPUTING)
        and not any(place in file for place in _WAITING)
        for file in below
    )


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


def _is_fault(error):
    """True if a rank raised something, and no line of its stack is the learner's."""
    # a collective of the check fails if the answer made another one before it
    if error.kind.startswith(("RuntimeError", "Dist")) or failures.advice(error.text):
        return False
    return bool(error.details) and not error.own


def _busy(error):
    """The hint for a rank that waits for nobody and still does not end; else ""."""
    ends = [frames[-1] for frames in error.where.values() if frames]
    if error.kind != "late" or any(".wait(" in line for line in error.lines):
        return ""
    if ends and all(frame.function == "_shutdown" for frame in ends):
        return "The function has returned, but a thread that it started goes on."
    if any(map(is_learners, ends)):
        return "A rank is still busy in a line of yours, shown above. Does it end?"
    if any(map(_computes, error.where.values())):
        return BUSY
    return ""
