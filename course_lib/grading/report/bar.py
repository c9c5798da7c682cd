"""How far grading is, in a terminal or a log."""

import threading

import rich.progress
from rich.console import Console
from rich.text import Text

from course_lib.grading.grades import Grade
from course_lib.grading.report import wording

_SEVERAL = 10  # submissions, of which the first tell how long the others will take


class Progress:
    """How far grading is: a bar in a terminal, else a line for each submission done.

    It goes to stderr. Threads may use one together.
    """

    def __init__(self, total: int, console: Console | None = None):
        self.total, self.done = total, 0
        self._console = console or Console(stderr=True)
        self._working, self._lock = [], threading.Lock()
        # FORCE_COLOR makes rich call a log file a terminal
        drawn = self._console.is_interactive and self._console.file.isatty()
        self._bar = _bar(self._console, total) if drawn else None

    def __enter__(self):
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        return self

    def __exit__(self, *error):
        if self._bar:
            self._bar.stop()

    def start(self, name: str) -> None:
        """Say that the submission of this name is in work."""
        with self._lock:
            self._working.append(name)
            self._draw()

    def finish(self, name: str, grade: Grade) -> None:
        """Say that it is done, and what came out."""
        with self._lock:
            if name in self._working:
                self._working.remove(name)
            self.done += 1
            self._draw()
            if not self._bar:
                self._print(grade)

    def _draw(self):
        if self._bar:
            text = wording.line(self._working[0], 30) if self._working else ""
            self._bar.update(self._task, completed=self.done, description=text)

    def _print(self, grade):
        parts = (wording.name(grade), wording.notebook(grade), wording.score(grade))
        text = Text(f"[{self.done}/{self.total}] {' '.join(parts)}")
        self._console.print(text, soft_wrap=True)


def _bar(console, total):
    columns = [rich.progress.MofNCompleteColumn(), rich.progress.BarColumn(20)]
    columns.append(rich.progress.TimeElapsedColumn())
    if total >= _SEVERAL:
        columns.append(rich.progress.TimeRemainingColumn())
    columns.append(rich.progress.TextColumn("{task.description}", markup=False))
    return rich.progress.Progress(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=2,
        speed_estimate_period=600,
        redirect_stdout=False,  # it would go to stderr
    )
