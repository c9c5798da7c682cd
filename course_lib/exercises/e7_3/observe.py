"""Exercise 7.3, in a rank: a server, or a worker whose steps come by turns.

One worker at a time has the turn. It hands it on when it is answered, or at once where
a right server lets it wait; first to those whose wait its step ends, one by one. So
each server meets the same order, on a busy machine too.
"""

import contextlib
from pathlib import Path

import torch
import torch.distributed as dist

from course_lib.exercises.compare import group
from course_lib.exercises.values import plain
from course_lib.system.patching import patch

TAKEN, ANSWERED, FREED = range(3)  # what a worker waits for
_TURN = 1  # the tag of what workers tell each other


def observe(rank, world_size, answer, given):
    """Return what the server gives, and of a worker the weights that it was sent."""
    with group(rank, world_size, gpus=False):
        if rank:
            return {"answers": _Worker(rank, given).work()}
        weights, limits = given["start"].clone(), (given["steps"], given["bound"])
        with _Posted(posted_file(given)) as posted:
            returned = plain(answer(weights, world_size - 1, *limits))
        return {"returned": returned, "sent": posted.sent}


def posted_file(given: dict) -> Path:
    """Return the file in which the server's sends are noted while it runs."""
    return Path(f"{given['file']}.sent")


class _Posted(contextlib.ExitStack):
    """Notes what the server sends in a block, and after how many gradients.

    Each as the rank of the worker and the number of messages that have arrived; in a
    file, too, for the check of a server that does not return.
    """

    def __init__(self, file):
        super().__init__()
        self.file, self.sent, self.open, self.arrived = file, [], set(), 0

    def __enter__(self):
        patch(self, (dist.ProcessGroup, "send"), self._send)
        for name in ("recv", "recv_anysource"):
            patch(self, (dist.ProcessGroup, name), self._receive)
        for name in ("wait", "is_completed"):
            patch(self, (dist.Work, name), self._asked)
        return super().__enter__()

    def _send(self, original, /, own, tensors, target, *tag):
        self.sent.append((target, self.arrived))
        self.file.write_text(" ".join(str(worker) for worker, _ in self.sent))
        return original(own, tensors, target, *tag)

    def _receive(self, original, /, *args):
        work = original(*args)
        self.open.add(id(work))
        return work

    def _asked(self, original, /, work, *args, **kwargs):
        done = original(work, *args, **kwargs)
        if done and id(work) in self.open:
            self.open.remove(id(work))
            self.arrived += 1
        return done


class _Worker:
    """Takes its steps when it has the turn; the file says what it waits for."""

    def __init__(self, rank, given):
        self.rank, self.given = rank, given
        self.answers, self.steps = [], 0

    def work(self) -> list[torch.Tensor]:
        """Take all steps, if the server does not leave; the answers come back."""
        with contextlib.suppress(RuntimeError):  # the connection is closed
            self._take_all()
        return self.answers

    def _take_all(self):
        turns = list(_turns(self.given["turns"]))
        for place, (number, worker, due) in enumerate(turns):
            if worker == self.rank:
                self._hand(dist.recv, turns[max(0, place - 1) : place])
                if due is None:
                    self._receive(number, FREED)
                else:
                    self._step(number, due=due)
                self._hand(dist.send, turns[place + 1 :])

    def _step(self, number, *, due):
        self._note(number, TAKEN)
        dist.send(self.given["gradients"][self.rank][self.steps], 0)
        self.steps += 1
        answer = torch.empty_like(self.given["start"])
        self.request = answer, dist.irecv(answer, 0)
        if due:
            self._receive(number, ANSWERED)

    def _receive(self, number, what):
        self._note(number, what)
        answer, request = self.request
        request.wait()
        self.answers.append(answer)

    def _hand(self, call, others):
        """Send the turn to another worker, or wait until it is sent."""
        if others and others[0][1] != self.rank:
            call(torch.empty(1), others[0][1], tag=_TURN)

    def _note(self, number, what):
        Path(self.given["file"]).write_text(f"{number} {self.rank} {what}")


def _turns(steps):
    """The number of steps before each turn, whose it is, and whether an answer is due.

    That is None for a worker that takes no step, and is answered since another did.
    """
    for number, (worker, due) in enumerate(steps):
        yield number, worker, worker in due
        yield from ((number + 1, other, None) for other in due if other != worker)
