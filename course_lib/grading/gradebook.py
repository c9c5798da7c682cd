"""Grade submissions, several at a time, and keep what is finished for a later run."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from course_lib.grading import grades
from course_lib.grading.grades import Grade
from course_lib.grading.handed_in.submissions import Submission
from course_lib.workspace.atomic import write_whole

_PACKAGE = Path(__file__).parents[1]
_REPORTS = _PACKAGE / "grading" / "report"


class Gradebook:
    """A folder with a file for each grade; `setting` is all that grades depend on.

    A grade is found again only for the same file of the same learner, graded with the
    same exercises, options and course.
    """

    def __init__(self, folder: Path, setting: Iterable[bytes]):
        self.folder = folder
        self.setting = _digest([_course(), *setting])

    def file_of(self, submission) -> Path | None:
        """Return where the grade of a submission is kept, None if it cannot be read."""
        try:
            data = submission.read()
        except Exception:  # grading it will say why
            return None
        about = f"{submission.learner}\n{submission.source}".encode()
        return self.folder / f"{_digest([self.setting.encode(), about, data])}.json"


def kept_grade(place: Path | None) -> Grade | None:
    """Return the grade that is kept there, if it is whole."""
    if place is None:
        return None
    try:
        return grades.from_dict(json.loads(place.read_text(encoding="utf-8")))
    except (AttributeError, OSError, ValueError, KeyError, TypeError):
        return None


def keep_grade(grade: Grade, place: Path | None) -> None:
    """Write a grade down, unless the grader failed: that is tried again.

    Errors: `OSError` where it cannot be kept.
    """
    if place is None or grade.status == grades.FAILED:
        return
    write_whole(place, json.dumps(dataclasses.asdict(grade)).encode())


def _digest(parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:32]


def _course():
    """The package as it is now, data files too: a check that was mended grades anew.

    Without its reports, which show grades and make none.
    """
    parts = []
    for path in _files(_PACKAGE):
        parts += [str(path.relative_to(_PACKAGE)).encode(), path.read_bytes()]
    return b"\0".join(parts)


def _files(folder):
    """The files below a folder in one order everywhere, as they are in a clone."""
    for path in sorted(folder.iterdir()):
        if path == _REPORTS or path.name.startswith((".", "__pycache__")):
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


class GradingRun:
    """What a run has graded so far, and how many submissions are left.

    `known` are those that were found in the book; `unkept` says why grades could not
    be kept there.
    """

    def __init__(self, book: Gradebook, *, again: bool):
        self.book = book
        self.again = again
        self.interrupted = False
        self.results = {}
        self.known = 0
        self.unkept = ""
        self.left = 0

    def grade_all(self, handed: Sequence[Submission], grader, jobs: int) -> None:
        """Grade all that is not finished yet, `jobs` at a time.

        `grader` has a method `grade` that may be called from several threads.
        """
        from course_lib.grading.report.terminal import Progress

        self.left = len(handed)
        with Progress(self.left) as progress, _pool(jobs) as pool:

            def grade(submission):
                place = self.book.file_of(submission)
                known = None if self.again else kept_grade(place)
                if known:
                    return known, True
                progress.start(submission.source)
                new = grader.grade(submission)
                self._keep(new, place)  # here, since an interruption ends the rest
                return new, False

            tickets = {pool.submit(grade, each): each for each in handed}
            for ticket in as_completed(tickets):
                submission, (result, known) = tickets[ticket], ticket.result()
                self.results[submission] = result
                self.known += known
                self.left -= 1
                progress.finish(submission.source, result)

    def graded(self) -> list[Grade]:
        """Return the grades in the order of learners, whichever was done first."""
        order = sorted(self.results, key=_by_learner)
        return [self.results[submission] for submission in order]

    def _keep(self, grade, place):
        try:
            keep_grade(grade, place)
        except OSError as error:
            self.unkept = f"{error.strerror}: {place.parent}"


def _by_learner(submission):
    return submission.learner.casefold(), submission.source


@contextlib.contextmanager
def _pool(jobs):
    """Threads; when the block is left early, what has not begun is not begun."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
