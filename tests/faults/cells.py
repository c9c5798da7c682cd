"""Cells that cause a fault in a launch, and what the learner then sees."""

import re

from tests.kernels import Kernel, error, shown

SOON = 60  # seconds, on a slow machine that is busy; most take a tenth of one
PRELUDE = """
import course_lib as cl, torch, torch.distributed as dist
import time, os, sys, ctypes, threading
MARK = os.environ["FAULT_MARK"]

def now():
    with open(MARK, "a") as file:
        file.write(f"{time.monotonic()}\\n")

def rank_of(rank, world_size):
    return rank
"""


def opened(**options):
    """A new kernel that has run the prelude."""
    kernel = Kernel(**options)
    try:
        kernel.run(PRELUDE)
    except BaseException:
        kernel.close()
        raise
    return kernel


def fault(kernel, body, call="cl.launch(train)"):
    """The error of a cell whose rank 1 does `body` while rank 0 is in an all-reduce.

    `body` is line 5 of the cell.
    """
    cell = f"""def train(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        now()
        {body}
    dist.all_reduce(torch.ones(3))

{call}"""
    return failed(kernel, cell)


def failed(kernel, cell):
    """The error of a cell that calls `now()` where its fault happens; it came soon."""
    kernel.mark.unlink(missing_ok=True)
    text = error(kernel.run(cell))
    assert text is not None, "the cell ended without an error"
    assert kernel.waited < SOON, f"{kernel.waited:.1f} s, then: {text}"
    return text


def others(text):
    """What an error says of each of the other ranks: words by rank."""
    words = {}
    for line in text.splitlines():
        if match := re.match(r"ranks? (\d[\d, -]*) (?!of )(.+)", line):
            for part in match[1].split(", "):
                first, _, last = part.partition("-")
                ranks = range(int(first), int(last or first) + 1)
                words |= dict.fromkeys(ranks, match[2])
    return words


def placed(text, ranks, line):
    """True if all these ranks, and no others, are said to have been in this line.

    They were asked there, or had lost their connection in its collective before.
    """
    told, call = others(text), re.search(r"dist\.(\w+)", line)[1]
    ways = (f"lost the connection in {call}: ", "was stopped in ", "were stopped in ")
    there = (words.startswith(ways) and words.endswith(line) for words in told.values())
    return told.keys() == ranks and all(there)


def value(kernel, expression):
    """What a cell shows of an expression."""
    messages = kernel.run(expression)
    assert error(messages) is None, error(messages)
    return shown(messages)


def launches(kernel):
    """True if the next launch in this kernel works."""
    return "[0, 1, 2]" in value(kernel, "list(cl.launch(rank_of, world_size=3))")


def hangs(kernel, ready="ready", options=""):
    """Start a launch of two that never ends; comes back once both have said so.

    They say it in the line in which they then sleep.
    """
    cell = f"""
def train(rank, world_size):
    print("{ready}"), time.sleep(1000)

cl.launch(train{options})"""
    message_id = kernel.send(cell)
    kernel.until_shown(message_id, f"[rank 0] {ready}", f"[rank 1] {ready}")
    return message_id
