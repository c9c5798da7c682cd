"""Grades submissions, several at a time, and keeps what is finished."""

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from course_lib.grading import gradebook
from course_lib.grading.gradebook import Gradebook
from course_lib.grading.submissions import Submission


class Desk:
    """What a run has found so far; `unkept` says why grades could not be kept."""

    def __init__(self, book: Gradebook, *, again: bool):
        self.book, self.again, self.interrupted = book, again, False
        self.found, self.known, self.unkept = {}, 0, ""

    def grade_all(self, handed: Sequence[Submission], grader, jobs: int) -> None:
        """Grade all that is not finished yet, `jobs` at a time.

        `grader` has a method `grade` that may be called from several threads.
        """
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
