"""Grades submissions, several at a time, and keeps what is finished."""

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from course_lib.grading import gradebook
from course_lib.grading.gradebook import Gradebook
from course_lib.grading.handed_in.submissions import Submission


class Desk:
    """What a run has found so far, and how many are left.

    `known` are those that were found in the book; `unkept` says why grades could not
    be kept there.
    """

    def __init__(self, book: Gradebook, *, again: bool):
        self.book, self.again, self.interrupted = book, again, False
        self.found, self.known, self.unkept, self.left = {}, 0, "", 0

    def grade_all(self, handed: Sequence[Submission], grader, jobs: int) -> None:
        """Grade all that is not finished yet, `jobs` at a time.

        `grader` has a method `grade` that may be called from several threads.
        """
        from course_lib.grading.report.terminal import Progress

        self.left = len(handed)
        with Progress(self.left) as progress, _pool(jobs) as pool:

            def grade(submission):
                place = self.book.place(submission)
                known = None if self.again else gradebook.find(place)
                if known:
                    return known, True
                progress.start(submission.source)
                made = grader.grade(submission)
                self._keep(made, place)  # here, since an interruption ends the rest
                return made, False

            tickets = {pool.submit(grade, one): one for one in handed}
            for ticket in as_completed(tickets):
                submission, (made, known) = tickets[ticket], ticket.result()
                self.found[submission] = made
                self.known += known
                self.left -= 1
                progress.finish(submission.source, made)

    def graded(self) -> list:
        """The grades in the order of learners, whichever was done first."""
        order = sorted(self.found, key=lambda one: (one.learner.casefold(), one.source))
        return [self.found[one] for one in order]

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
