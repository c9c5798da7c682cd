"""Grade one notebook: merge it, run it, run it again without a cell that ended it."""

import contextlib
import json
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from course_lib.errors import CourseError
from course_lib.grading import scoring
from course_lib.grading.grades import (
    CRASHED,
    FAILED,
    FLAGGED,
    GRADED,
    LATE,
    REFUSED,
    SUSPECT,
    Grade,
)
from course_lib.grading.notebook import cells, merging
from course_lib.grading.notebook.assignment import Absent, Assignment, choose
from course_lib.grading.notebook.canaries import canaries
from course_lib.grading.run.limits import Limits
from course_lib.grading.run.template import Template, remove
from course_lib.system import sockets

_MOST_RUNS = 12  # of one notebook: each is without one more cell that ended it
_PATIENCE = 10.0  # seconds until a run that is interrupted has ended
_LONGEST = 1000  # characters of an error of the grader's


class GraderError(CourseError):
    """The grader could not do its work: no fault of a learner's."""


class Stopped(Exception):
    """The grader was closed meanwhile."""


@dataclass(frozen=True)
class Options:
    """How notebooks are run."""

    limits: Limits = field(default_factory=Limits)
    sandbox: bool = True
    canary: bool = False
    hidden: tuple[str, ...] = ()  # folders that no notebook may see


class Grader:
    """Grades notebooks, several at the same time from several threads."""

    def __init__(
        self, assignments: Sequence[Assignment], options: Options, *, template=None
    ):
        self.assignments = assignments
        self.options = options
        self.borrowed = template
        self.templates = [template] if template else []  # one that ended stays in it
        self.turn = threading.Condition()
        self.links = set()
        self.closed = False

    def grade(self, submission) -> Grade:
        """Return the grade of one submission.

        Errors: `Stopped` if the grader was closed meanwhile.
        """
        began, name = time.monotonic(), ""
        about = {"learner": submission.learner, "source": submission.source}
        try:
            handed = cells.tidy(cells.parse(submission.read()))
            assignment = choose(handed, self.assignments)
            name = assignment.name
            result = self._graded(merging.merge_answers(handed, assignment))
        except cells.Refused as error:
            result = {"status": REFUSED, "message": str(error)}
        except (GraderError, Absent) as error:
            result = {"status": FAILED, "message": str(error)}
        except Stopped:
            raise
        except Exception as error:  # one notebook must not end the run of all
            why = f"the grader could not do its work: {type(error).__name__}: {error}"
            result = {"status": FAILED, "message": why[:_LONGEST]}
        took = round(time.monotonic() - began, 3)
        return Grade(notebook=name, seconds=took, **about, **result)

    def _graded(self, merged):
        """Status, tasks, repairs and what a person should know."""
        canary, assignment = self.options.canary, merged.assignment
        execution = self._runs(merged)
        if fault := scoring.broken(assignment, execution):
            raise GraderError(fault)
        tasks = scoring.tasks(assignment, execution, canary=canary)
        suspects = ", ".join(task.id for task in tasks if task.outcome == SUSPECT)
        flag = f"checks that may have been tampered with: {suspects}"
        return {
            "status": FLAGGED if suspects else GRADED,
            "tasks": tasks,
            "repairs": (*merged.repairs, *scoring.notes(merged, execution, tasks)),
            "message": flag if suspects else "",
        }

    def _runs(self, merged):
        """Run the notebook until each of its cells has run, or was taken out."""
        replaced = {}
        until = time.monotonic() + self.options.limits.total
        more = canaries(merged) if self.options.canary else ()
        while True:
            reasons = {cell: why for cell, (_, why) in replaced.items()}
            notebook = merged.notebook(more, replaced=reasons)
            seconds = max(1.0, until - time.monotonic())
            reports, end = self._run(notebook, merged.assignment, seconds=seconds)
            execution = scoring.Execution(reports, replaced)
            code = [c["id"] for c in notebook["cells"] if c["cell_type"] == "code"]
            left = [cell for cell in code if "outcome" not in reports.get(cell, {})]
            guilty = _guilty(reports, end, left=left, sandbox=self.options.sandbox)
            if guilty is None:
                return execution
            cell, outcome, why = guilty
            if cell in replaced or len(replaced) >= _MOST_RUNS:
                runs = len(replaced)
                execution.cut = f"cells before it ended the kernel in {runs} runs"
                return execution
            replaced[cell] = outcome, why

    def _run(self, notebook, assignment, *, seconds):
        """What was reported of each cell in one run, and how the run ended."""
        template = self._warm()
        folder = Path(tempfile.mkdtemp(dir=template.folder))
        try:
            limits = replace(self.options.limits, total=seconds)
            self._write(folder, notebook, assignment, limits=limits)
            with self._started(template, folder) as link:
                reports, end = _follow(link)
        finally:
            remove(folder)
        if end is None and not template.lives():
            raise GraderError(f"its template ended: {template.last_words()}")
        return reports, end

    def _write(self, folder, notebook, assignment, *, limits):
        """Write what a run needs into its folder."""
        room = folder / "room"
        (room / "sockets").mkdir(parents=True)
        path = folder / "notebook.ipynb"
        path.write_text(json.dumps(notebook), encoding="utf-8")
        job = {
            "room": str(room),
            "notebook": str(path),
            "limits": asdict(limits),
            "sandbox": self.options.sandbox,
            "hidden": [str(folder.parent), *self.options.hidden],
            "seconds": scoring.seconds(assignment, limits.cell),
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")

    def _warm(self):
        """The template, started if there is none that lives."""
        with self.turn:
            if self.closed:
                raise Stopped
            if not self.templates or not self.templates[-1].lives():
                self.templates.append(Template())
            return self.templates[-1]

    @contextlib.contextmanager
    def _started(self, template, folder):
        """The link to a run of what was written into a folder."""
        with self.turn:
            if self.closed:
                raise Stopped
            try:
                link = template.supervise(folder)
            except OSError:
                log = template.last_words()
                raise GraderError(f"its template ended: {log}") from None
            self.links.add(link)
        try:
            yield link
            if self.closed:
                raise Stopped
        finally:
            with self.turn:
                self.links.discard(link)
                link.close()
                self.turn.notify_all()

    def close(self) -> None:
        """End every run at once, leave no process and no file."""
        with self.turn:
            self.closed = True
            for link in self.links:
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_WR)  # a supervisor ends all, then answers
            self.turn.wait_for(lambda: not self.links, timeout=_PATIENCE)
            for template in self.templates:
                if template is not self.borrowed:
                    template.close()
            self.templates = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _follow(link):
    """What a run reports of its cells, in the order of their begin, and its end."""
    reports, end = {}, None
    while end is None:
        message, _ = sockets.receive(link)
        if message is None:
            break
        if "broken" in message:
            end = {"end": "broken", "why": message["broken"]}
        elif "end" in message:
            end = message
        else:
            reports[message["cell"]] = message
    return reports, end


def _guilty(reports, end, *, left, sandbox):
    """The cell that ended a run before its time, the outcome, why; None if none did.

    Errors: `GraderError` if it cannot have been a cell.
    """
    last = next(reversed(reports), None)
    how = end["end"] if end else "lost"
    if how in ("broken", "lost") and (sandbox or last is None):
        raise GraderError(end["why"] if end else "the process that runs it was killed")
    if how == "limit":
        if "seconds" in end["why"]:
            return None  # another run would take as long
        return last, CRASHED, f"it was ended: {end['why']}"
    if reports.get(last, {}).get("outcome") == "late" and left:
        return last, LATE, "it did not end in its time, nor when it was interrupted"
    if left or reports.get(last, {}).get("outcome") == "ended":
        return last, CRASHED, "it ended its kernel (a crash, os._exit, a signal)"
    return None
