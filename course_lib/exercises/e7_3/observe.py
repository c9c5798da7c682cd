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

TAKEN, ANSWERED, FREED = range(3)  # what a worker waits for
_TURN = 1  # the tag of what workers tell each other


def observe(rank, world_size, answer, given):
    """Return what the server gives, and of a worker the weights that it was sent."""
    with group(rank, world_size, gpus=False):
        if rank:
            return {"answers": _Worker(rank, given).work()}
        weights, limits = given["start"].clone(), (given["steps"], given["bound"])
        return {"returned": plain(answer(weights, world_size - 1, *limits))}


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
