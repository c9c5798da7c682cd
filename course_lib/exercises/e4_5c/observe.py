"""Exercise 4.5c, in a rank: what a report of the loss returns, prints and leaves."""

import contextlib
import io
from functools import partial

import torch
import torch.distributed as dist

from course_lib.exercises.compare import group
from course_lib.exercises.values import plain
from course_lib.system.patching import patch

# methods of a group whose first argument is what they write into
_WRITING = ("allreduce", "reduce", "broadcast", "allgather")
# what a learner may ask of a call that is under way
_ASKING = ("wait", "is_completed", "result", "synchronize", "get_future")


def observe(rank, world_size, answer, given):
    """Return what `answer` does with this rank's loss; backward is called after it.

    `again` is what it returns when it is called once more, with twice the loss.
    """
    with group(rank, world_size) as device, _LateResults() as late:
        weight = torch.ones(1, device=device, requires_grad=True)
        loss = (weight * given["losses"][rank]).sum()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            returned = plain(answer(rank, world_size, loss))
        after, weight.grad, unasked = loss.item(), None, len(late.open)
        with contextlib.suppress(RuntimeError):  # its graph is gone
            loss.backward()
        twice = torch.full((1,), 2 * after, device=device, requires_grad=True)
        with contextlib.redirect_stdout(io.StringIO()):
            again = plain(answer(rank, world_size, twice.sum()))
    return {
        "returned": returned,
        "again": again,
        "open": unasked,
        "printed": printed.getvalue(),
        "loss": after,
        "backward": weight.grad is not None,
    }


class _LateResults(contextlib.ExitStack):
    """Lets a collective's result arrive when its `Work` is asked, not before.

    One that came by chance before anybody waited for it would hide a mistake.
    """

    def __enter__(self):
        self.open = {}  # those that nobody has asked for, with their places
        for name in _WRITING:
            patch(self, (dist.ProcessGroup, name), self._post)
        for name in _ASKING:
            patch(self, (dist.Work, name), partial(self._asked, name))
        return super().__enter__()

    def _post(self, original, /, own, target, *others):
        buffer = _cloned(target)
        work = original(own, buffer, *others)
        # with the work, whose id would else be given again
        self.open[id(work)] = work, target, buffer
        return work

    def _asked(self, name, original, /, work, *args, **kwargs):
        answer = original(work, *args, **kwargs)
        if id(work) in self.open and (answer or name != "is_completed"):
            _, target, buffer = self.open.pop(id(work))
            if name in ("result", "get_future"):
                work.wait()
            _copy(target, buffer)
        return answer


def _cloned(target):
    """A copy of a tensor, or of all in lists of lists."""
    if torch.is_tensor(target):
        return target.detach().clone()
    return [_cloned(part) for part in target]


def _copy(target, source):
    if torch.is_tensor(target):
        target.detach().copy_(source)
    else:
        for one, other in zip(target, source):
            _copy(one, other)
