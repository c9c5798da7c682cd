"""What each cell of a notebook gets: a clock while it is silent, short errors."""

import threading
import time
from collections.abc import Callable

from course_lib import tracebacks
from course_lib.display import line_in_cell, shell

_SILENT = 2.0  # seconds without news, after which a cell says how long it runs


class CellClock:
    """A line that says how long a cell runs, as long as the cell shows nothing else."""

    def __init__(self):
        self._depth = 0  # a cell may run another one
        self._began = self._news = 0.0
        self._over = threading.Event()
        self._publisher = None  # of the notebook; else whatever shows things

    def install(self, ipython):
        """Run with each cell of a notebook from the next one on."""
        self._publisher = ipython.display_pub
        self._publisher.register_hook(self.note)
        ipython.events.register("pre_run_cell", self.begin)
        ipython.events.register("post_run_cell", self.end)

    def note(self, message):
        """Take note of what a cell shows; it comes back, as the publisher wants it."""
        self._news = time.monotonic()
        return message

    def begin(self, _=None):
        """Start the clock: a cell begins."""
        self._depth += 1
        if self._depth > 1:
            return
        self._began = self._news = time.monotonic()
        self._over.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self, _=None):
        """Take the line away: a cell ends, maybe the one that installed this clock."""
        if not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            self._over.set()
            self._thread.join()

    def _watch(self):
        # the one of before: a slider's function runs with its output captured
        with line_in_cell(self._publisher) as write:
            shown = ""
            while not self._over.wait(1.0):
                text = self.text(time.monotonic())
                if text or shown:  # other news have come: they have their own clock
                    write(text)
                shown = text

    def text(self, now: float) -> str:
        """Return what is to be said at this time, nothing if there were news."""
        silent = now - self._news >= _SILENT
        return f"this cell runs, {int(now - self._began)} s …" if silent else ""


def after_cell(show: Callable) -> None:
    """Call `show()` at the end of a notebook's cell: below its result or its error."""
    events = shell().events

    def once():
        events.unregister("post_execute", once)
        show()

    events.register("post_execute", once)


def follow_cells() -> None:
    """Show in each cell how long it runs, and errors without frames of libraries."""
    ipython = shell()
    if hasattr(ipython, "events"):  # kernels of others may have less than IPython's
        tracebacks.fold_libraries()
        CellClock().install(ipython)
