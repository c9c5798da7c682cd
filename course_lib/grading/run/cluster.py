"""Grade on the workers of a Dask scheduler, where one machine is not enough.

    command --bytes--> scheduler --> worker: one grader --> template --> notebook

A grade comes back as plain data. A notebook whose worker ends runs on another one.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed

from course_lib.errors import UsageError
from course_lib.grading import grades
from course_lib.grading.gradebook import Gradebook
from course_lib.grading.grades import Grade
from course_lib.grading.handed_in.submissions import Refused, Submission
from course_lib.grading.notebook.assignment import Assignment
from course_lib.grading.run import sandbox
from course_lib.grading.run.grader import Grader, GraderError, Options, Stopped

_CONNECTING = 10  # seconds
_LEAST_JOBS = 128  # on their way at the same time: workers may join later
_LOOK = 5  # seconds between two looks whether there still is a worker
_PATIENCE = 60  # seconds without any; one that was killed starts again in a few
_RETRIES = 3  # of what a worker did not finish because it was stopped
_INSTALL = 'pip install -c constraints.txt -e ".[cluster]"'


class Cluster(contextlib.AbstractContextManager):
    """A scheduler, and workers that have the course which is here.

    Errors: `UsageError` where there is no scheduler, no worker, or another course.
    """

    def __init__(self, address: str):
        self.address, self.client = address, _connect(address)
        try:
            self._compare()
        except BaseException:
            self.client.close()
            raise

    def _compare(self):
        workers = self.client.run(_course, on_error="return")
        if not workers:
            raise UsageError(
                f"no worker is connected to the scheduler at {self.address}. Start"
                f" some, on any machine: dask worker {self.address} --nthreads N"
            )
        try:
            scheduler = self.client.run_on_scheduler(_course)
        except Exception as error:
            scheduler = error
        _refuse_other(f"the scheduler at {self.address}", scheduler)
        for address, theirs in workers.items():
            _refuse_other(f"the worker at {address}", theirs)

    @property
    def jobs(self) -> int:
        """How many submissions to send at the same time."""
        return max(_LEAST_JOBS, 2 * sum(self.client.nthreads().values()))

    def without_sandbox(self) -> str:
        """Return why a worker has no sandbox; nothing if all have one."""
        reasons = self.client.run(sandbox.missing, on_error="ignore")
        return next((f"{place}: {why}" for place, why in reasons.items() if why), "")

    def grader(self, assignments: Sequence[Assignment], options: Options) -> "Remote":
        """Return what grades as a `Grader` does, on the workers."""
        return Remote(self.client, assignments, options)

    def __exit__(self, *_):
        self.client.close()


def _connect(address):
    # what goes wrong is said once, by this module
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", message="Sending large graph")
    try:
        # a client would wait for ever for something else than a scheduler
        identity = asyncio.run(asyncio.wait_for(_identity(address), _CONNECTING))
        if identity["type"] != "Scheduler":
            raise ValueError(f"found a {identity['type']}")
        return distributed.Client(address, timeout=_CONNECTING, set_as_default=False)
    except Exception as error:
        raise UsageError(
            f"cannot connect to a Dask scheduler at {address!r}: {_reason(error)}. Give"
            " the address that `dask scheduler` printed, as in tcp://10.0.0.5:8786"
        ) from None


async def _identity(address):
    how = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, connection_args=how) as server:
        return await server.identity()


@functools.cache  # what this process has imported stays, whatever is pulled meanwhile
def _course():
    """Python's version and a digest of this package, as they are where this runs."""
    return "{}.{}".format(*sys.version_info), Gradebook(Path(), ()).setting


def _refuse_other(place, theirs):
    """Errors: `UsageError` unless a place has Python and course as they are here."""
    python, course = _course()
    fault = ""
    if isinstance(theirs, Exception):
        fault = f"cannot import this course: {theirs}. Install it there: {_INSTALL}"
    elif theirs[0] != python:
        fault = f"has Python {theirs[0]}, expected {python} as here. Start it with that"
    elif theirs[1] != course:
        fault = (
            "has another version of this course, and would grade with other checks."
            " Check out the same commit there, and start it again"
        )
    if fault:
        raise UsageError(f"{place} {fault}")


class Remote(contextlib.AbstractContextManager):
    """Grades notebooks on workers, several at the same time from several threads."""

    def __init__(self, client, assignments: Sequence[Assignment], options: Options):
        self.client = client
        self.tickets = set()
        self.closed = False
        self.run = f"course_lib grading {uuid.uuid4().hex}"
        client.register_plugin(_Seat(assignments, options), name=self.run)

    def grade(self, submission: Submission) -> Grade:
        """Return the grade of one submission.

        Errors: `Stopped` if this was closed meanwhile.
        """
        about: dict[str, Any] = {"learner": submission.learner}
        about["source"] = submission.source
        try:
            return grades.from_dict(self._sent(submission.read(), about))
        except Refused as error:
            status, message = grades.REFUSED, str(error)
        except (Exception, distributed.CancelledError) as error:
            if self.closed:
                raise Stopped from None
            status = grades.FAILED
            message = f"the grader could not do its work: {_reason(error)}"
        return Grade(notebook="", status=status, message=message, **about)

    def _sent(self, *parcel):
        how = {"pure": False, "retries": _RETRIES}
        ticket = self.client.submit(_grade, self.run, *parcel, **how)
        self.tickets.add(ticket)
        try:
            return self._result(ticket)
        finally:
            self.tickets.discard(ticket)

    def _result(self, ticket):
        """Errors: `GraderError` if there is no worker any more."""
        last = time.monotonic()
        while True:
            try:
                return ticket.result(timeout=_LOOK)
            except distributed.TimeoutError:
                if ticket.done():  # meanwhile, or it is an error of the task
                    return ticket.result()
            if self.client.scheduler_info(n_workers=0)["n_workers"]:
                last = time.monotonic()
            elif time.monotonic() - last > _PATIENCE:
                raise GraderError("no worker is connected any more. Start some")

    def close(self) -> None:
        """End every run at once, leave no process and no file on the workers."""
        self.closed = True
        # the second time, and where the scheduler is lost, there is nothing to end
        with contextlib.suppress(Exception):
            self.client.cancel(list(self.tickets))
            self.client.unregister_worker_plugin(self.run)

    def __exit__(self, *_):
        self.close()


def _reason(error):
    if isinstance(error, distributed.KilledWorker):
        return (
            f"its worker ended each time, {error.allowed_failures + 1} in turn, the"
            f" last at {error.last_worker.address}, whose log may say why"
        )
    if isinstance(error, distributed.CancelledError):
        return "the connection to the scheduler was lost"
    if isinstance(error, asyncio.TimeoutError):
        return "there was no answer in time"
    return str(error) or type(error).__name__


class _Seat(distributed.WorkerPlugin):
    """What each worker has during a run: one grader, made when a notebook comes."""

    def __init__(self, assignments, options):
        self.assignments, self.options = assignments, options
        self.course = _course()

    def setup(self, worker):
        self.where = f"the worker at {worker.address}"
        self.lock = threading.Lock()
        self.grader: Any = None  # opened with the first notebook
        self.closed = False

    def grade(self, submission):
        """Return the grade as plain data."""
        with self.lock:
            if self.closed:
                raise Stopped
            if self.grader is None:
                self._open()
        return dataclasses.asdict(self.grader.grade(submission))

    def _open(self):
        if self.course != _course():  # it joined after the command had looked
            raise GraderError(f"{self.where} has another version of this course")
        self.grader = Grader(self.assignments, self.options)

    def teardown(self, worker):
        """End what runs: the run is over, was interrupted, or the worker is stopped."""
        with self.lock:
            self.closed = True
            if self.grader:
                self.grader.close()


def _grade(run, data, about):
    submission = SimpleNamespace(read=lambda: data, **about)
    plugin: Any = distributed.get_worker().plugins[run]
    return plugin.grade(submission)
