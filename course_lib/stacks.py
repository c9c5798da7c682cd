"""Read the stacks that `faulthandler` writes when a rank is asked where it is."""

import re

from course_lib.errors import Frame, is_learners

_LINE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def parse(text: str) -> list[list[Frame]]:
    """One stack per thread, each outermost first, the thread that was asked last."""
    stacks = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            stacks[-1].insert(0, Frame(found[1], int(found[2]), found[3]))
        elif "most recent call first" in line:
            stacks.append([])
    return [_inside(stack) for stack in stacks]


def main_stack(stacks: list[list[Frame]]) -> list[Frame]:
    """The stack that tells where a rank is: the last with a line of the learner's."""
    stacks = [stack for stack in stacks if stack]
    own = [stack for stack in stacks if any(map(is_learners, stack))]
    return (own or stacks or [[]])[-1]


def of_child(stacks: list[list[Frame]]) -> list[Frame]:
    """Where a forked process is: without the frames that it has from its parent."""
    stack = main_stack(stacks)
    starts = [i for i, frame in enumerate(stack) if frame.function == "_bootstrap"]
    return stack[starts[-1] + 1 :] if starts else stack


def _inside(stack):
    """The stack without the frames that belong to starting the rank."""
    first = next((i for i, frame in enumerate(stack) if is_learners(frame)), 0)
    return stack[first:]
