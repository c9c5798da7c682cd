"""Who waits for the end of an asynchronous call."""

import contextlib
import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from course_lib.exercises.compare import replaced

_WAYS = ("wait", "get_future", "is_completed")  # to learn that a call has ended


@contextlib.contextmanager
def noted_waits(note: Callable[[str, bool], None] = lambda *_: None):
    """Collect in a block the calls of collectives whose end somebody asks for.

    Whether a call that nobody waits for has ended is a matter of chance. `note` gets
    the way of asking, and whether it is torch.distributed itself that asks.
    """
    asked: list = []  # kept, so that no other call gets the id of one of them

    def noting(name, method):
        def noted(work, *args, **kwargs):
            if isinstance(work, dist.Work):  # its future is asked after get_future
                asked.append(work)
            caller = sys._getframe(1).f_globals.get("__name__", "")
            note(name, caller.startswith("torch.distributed"))
            return method(work, *args, **kwargs)

        return noted

    # PyTorch 2.15: who calls work.get_future() gets this class, not torch.futures's
    owners = [(dist.Work, name) for name in _WAYS] + [(torch.Future, "wait")]
    with contextlib.ExitStack() as stack:
        for owner, name in owners:
            stack.enter_context(replaced(owner, name, partial(noting, name)))
        yield asked


def unasked(calls: int, asked: list) -> int:
    """Return how many of some calls nobody has asked for."""
    return max(0, calls - len(set(map(id, asked))))
