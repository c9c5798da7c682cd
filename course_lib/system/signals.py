"""Hear one interrupt and no more, so that nothing disturbs the cleaning up after it."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def at_most_one():
    """Let the first Ctrl-C in the block through, and swallow those that follow.

    The handler itself turns deaf: to ignore signals once an exception has come leaves a
    moment in which a second one can come.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(
        before
    ):
        yield  # nobody can be interrupted here, or nobody wants to
        return
    interrupts = []

    def hear(number, frame):
        if not interrupts:
            interrupts.append(number)
            before(number, frame)
            # this handler has not raised: nothing is being cleaned up
            interrupts.clear()

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
