"""What went wrong, in one message: the rank, the line in the cell, the next step."""

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"  # a theme's own text stands out best


class _Shown:
    """Shown by a notebook as its message alone, without library frames."""

    def _render_traceback_(self):
        head, *rest = str(self).split("\n")
        return [f"{type(self).__name__}: {_BOLD}{head}{_PLAIN}", *rest]


class CourseError(_Shown, Exception):
    """An error of the course; a notebook shows its message alone."""


class UsageError(CourseError, ValueError):
    """The call cannot work as it was written; nothing was started."""


class TorchError(CourseError, ImportError):
    """torch is missing, broken, or of a version that lacks what the course uses."""


class RenamedError(CourseError, AttributeError):
    """A public name of `course_lib` that is another one now; the message says which."""


class _Report(_Shown, BaseException):
    """What became of a launch, in parts; the message has them all."""

    def __init__(
        self,
        head,
        *,
        what="",
        text="",
        lines=(),
        folded="",
        notes=(),
        rank=None,
        details="",
        kind="",
        own=(),
        where=None,
    ):
        whole = ["The whole traceback: cl.last_error().details"] if details else []
        shown = filter(None, (*lines, folded))
        parts = ("\n".join(part) for part in (shown, (*notes, *whole)))
        super().__init__("\n\n".join(filter(None, (head, *parts))))
        self.head, self.what, self.text = head, what, text
        self.lines, self.folded, self.notes = tuple(lines), folded, tuple(notes)
        self.rank, self.details, self.kind = rank, details, kind
        self.own, self.where = tuple(own), where or {}


class LaunchError(_Report, CourseError, RuntimeError):
    """A launch failed: `rank` is the first that did, `details` its whole traceback.

    `kind` is the name of the exception that it raised, else "exited", "killed", "left",
    "unsendable", "lost" (its connection), "late" or "stalled"; `where` has the stack of
    each rank that was still running.

    The parts of the message: `head`, of which `what` says what happened and `text` is
    the exception's own; `lines`, the learner's with source, or where each rank is;
    `folded`, those of libraries; `notes` on other ranks and what helps. `own` are the
    learner's frames in `details`.
    """

    last: "LaunchError | None" = None

    def __init__(self, head, **parts):
        super().__init__(head, **parts)
        LaunchError.last = self

    @property
    def raiser(self) -> str:
        """The innermost function of the learner's that the error left; "" if none."""
        names = [frame.function for frame in self.own]
        return next(filter(str.isidentifier, reversed(names)), "")


class LaunchTimeout(LaunchError, TimeoutError):
    """The ranks were not done in time; the message shows where each one was."""


class LaunchStalled(LaunchError):
    """All ranks wait for each other; the message shows where, and what to change."""


class LaunchInterrupted(_Report, KeyboardInterrupt):
    """The cell was interrupted; the message shows where each rank was."""


def last_error() -> LaunchError:
    """Return the error of the last failed launch; `details` hold its whole traceback.

    Errors: `UsageError` if no launch has failed.
    """
    if LaunchError.last is None:
        raise UsageError("no launch has failed in this notebook")
    return LaunchError.last
