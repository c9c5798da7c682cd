"""Interrupts of a cell that launches: the first is heard, the others change nothing."""

import signal
import threading


class FirstInterrupt:
    """A block in which one SIGINT at most is heard, so that cleaning up is not cut.

    Only the main thread of a process is interrupted; elsewhere the block does nothing.
    """

    def __enter__(self):
        self.held, self.before = False, signal.getsignal(signal.SIGINT)
        in_main = threading.current_thread() is threading.main_thread()
        self.installed = in_main and callable(self.before)
        if self.installed:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def _hear(self, number, frame):
        # no flag set in the code that cleans up would be early enough
        if not self.held:
            self.held = True
            self.before(number, frame)
            self.held = False  # the handler of the notebook has not raised

    def hold(self) -> None:
        """Let no interrupt through from here on."""
        self.held = True

    def __exit__(self, *_):
        if self.installed:
            signal.signal(signal.SIGINT, self.before)
