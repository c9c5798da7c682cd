"""Processes of an answer stay while the rank waits for a short time only.

Looks are counted here, not seconds: whether a wrong answer would pass without them
depends on how fast a machine is.
"""

import pytest

from course_lib.exercises import child_processes
from course_lib.exercises.e5_1 import observe as e5_1
from course_lib.exercises.e5_3 import observe as e5_3

GONE = 1 << 22  # no process has this number: it does not move, on any machine


def first_message(family):
    e5_1._note_messages(family)
    family.own = 1  # the first process that the rank has forked
    mine, other = child_processes.FORK.Pipe()
    mine.send("a share")
    assert other.recv() == "a share"


def first_batch(family):
    e5_3.signal.pause = lambda: None
    queue = child_processes.FORK.SimpleQueue()
    e5_3._produce(family, queue, e5_3.batches(1, 0, 4))
    assert not queue.empty()


def end_of_a_process(family):
    child_processes._told(family, lambda: None)


def tell_looks(pipe, moment, naps):
    """Send how often a process looks at the rank before a moment; in a fork."""
    count = 0

    def look(_):
        nonlocal count
        count += 1

    child_processes._sleep = look
    family = e5_1.Counters(0)
    family.pid[0] = GONE
    family.napping[0] = naps
    moment(family)
    pipe.send(count)


def looks(moment, *, naps):
    mine, other = child_processes.FORK.Pipe()
    told = (other, moment, naps)
    process = child_processes.FORK.Process(target=tell_looks, args=told)
    process.start()
    other.close()
    try:
        return mine.recv()
    finally:
        process.join()


@pytest.mark.parametrize(
    ("moment", "most"),
    [
        (first_message, e5_1._LATE),
        (first_batch, e5_3._LATE),
        (end_of_a_process, child_processes._LAST),
    ],
)
def test_a_process_stays_while_the_rank_takes_a_nap(moment, most):
    assert looks(moment, naps=True) == most
    assert looks(moment, naps=False) == child_processes._CALM
