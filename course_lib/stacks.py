"""Stacks of ranks: their frames, which are the learner's, how they are shown."""

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from typing import NamedTuple

# of a traceback, and of what faulthandler dumps
_LINE = re.compile(r'^  File "(.*)", line (\d+),? in (.*)$', re.MULTILINE)


# the module that calls the learner's function in a rank
_STARTS = os.path.join("course_lib", "launching", "rank_process.py")
_SHOWN = 3  # lines of the learner's


class Frame(NamedTuple):
    """One line of a stack: file, line number, function."""

    file: str
    line: int
    function: str


def _library_folders():
    # a virtual environment's stdlib is that of the Python it was made from
    stdlib = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    folders = stdlib | {os.path.dirname(__file__)}
    return tuple(os.path.join(folder, "") for folder in folders)


_OWN = os.path.join(os.path.dirname(__file__), "")
_LIBRARIES = _library_folders()
# wherever that is: one environment can lie on top of another
_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")


def is_learners(frame: Frame) -> bool:
    """Return True for a line the learner wrote: in a cell, a script, a module."""
    library = frame.file.startswith((*_LIBRARIES, "<frozen", "<string>"))
    return not (library or _INSTALLED.search(frame.file))


def place(frame: Frame) -> str:
    """Return `cell In[3], line 4, in train`, or the file where there is no cell."""
    return f"{_file_name(frame.file)}, line {frame.line}, in {frame.function}"


def _file_name(file):
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    cell = shell.compile.format_code_name(file) if shell else None
    if cell and cell[0] == "Cell":
        return f"cell {cell[1]}"
    try:
        nearby = os.path.relpath(file) if os.path.isabs(file) else file
    except FileNotFoundError:  # the working folder is gone
        return file
    return file if nearby.startswith("..") else nearby


def source(frame: Frame) -> list[str]:
    """Return the line of `frame` marked by an arrow, with those beside it."""
    linecache.checkcache(frame.file)  # a module may have been edited since
    numbers = range(max(1, frame.line - 1), frame.line + 2)
    lines = [(number, linecache.getline(frame.file, number)) for number in numbers]
    return [
        f"  {'-->' if number == frame.line else '   '} {number:>3}  {text.rstrip()}"
        for number, text in lines
        if text.strip()
    ]


def show_stack(frames: Sequence[Frame]) -> list[str]:
    """Return the learner's last lines of a stack with source, outermost first.

    The first of them is one of the cell's, or of the script's that was launched,
    however deep in modules of the learner's own the others are.
    """
    # a function that calls itself stands there once
    learners = list(dict.fromkeys(filter(is_learners, frames)))
    latest = learners[-_SHOWN:]
    if latest and latest[0].file != learners[0].file:
        latest = [_entry(learners[: 1 - _SHOWN]), *learners[1 - _SHOWN :]]
    lines = []
    for frame in latest:
        times = frames.count(frame)
        again = f" ({times} times)" if times > 1 else ""
        lines += [f"  {place(frame)}{again}", *source(frame)]
    return lines


def _entry(learners):
    """Return the innermost line of the cell, or of the file that was launched."""
    return [frame for frame in learners if frame.file == learners[0].file][-1]


def show_folded(frames: Sequence[Frame]) -> str:
    """Return the line on the frames after the learner's last, or "" without any."""
    learners = [number for number, frame in enumerate(frames) if is_learners(frame)]
    inner = frames[learners[-1] + 1 :] if learners else frames
    inner = [frame for frame in inner if not frame.file.startswith(_OWN)]
    if not inner:
        return ""
    last, count = inner[-1], len(inner)
    folded = f"{count} more in libraries" if count > 1 else "1 more in a library"
    place = f"{last.function}, {os.path.basename(last.file)}:{last.line}"
    return f"  ({folded}, the last in {place})"


def whereabouts(frames: Sequence[Frame]) -> str:
    """Say where a running rank is, in one line: the learner's line and its source."""
    learners = [frame for frame in frames if is_learners(frame)]
    if not frames:
        return "an unknown place: it did not answer"
    if not learners:
        return f"{frames[-1].function}, outside your code"
    linecache.checkcache(learners[-1].file)
    text = linecache.getline(learners[-1].file, learners[-1].line).strip()
    where = f"{place(learners[-1])}: {text}" if text else place(learners[-1])
    called = _entry(learners)
    within = called.file != learners[-1].file  # a module of the learner's own
    return f"{place(called)}, and there {where}" if within else where


def parse_dump(text: str) -> list[list[Frame]]:
    """Return a stack per thread, each outermost first, that which was asked last."""
    stacks = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            stacks[-1].insert(0, Frame(match[1], int(match[2]), match[3]))
        elif "most recent call first" in line:
            stacks.append([])
    return [within_function(stack) for stack in stacks]


def parse_tracebacks(text: str) -> list[Frame]:
    """Return the frames of all tracebacks in a text, in its order."""
    return [Frame(file, int(line), name) for file, line, name in _LINE.findall(text)]


def main_stack(stacks: list[list[Frame]]) -> list[Frame]:
    """Return the stack that tells where a rank is: the last with a learner's line."""
    stacks = [stack for stack in stacks if stack]
    learners = [stack for stack in stacks if any(map(is_learners, stack))]
    return (learners or stacks or [[]])[-1]


def of_child(stacks: list[list[Frame]]) -> list[Frame]:
    """Return where a forked process is, without the frames that are its parent's."""
    stack = main_stack(stacks)
    starts = [i for i, frame in enumerate(stack) if frame.function == "_bootstrap"]
    return stack[starts[-1] + 1 :] if starts else stack


def within_function(stack: list[Frame]) -> list[Frame]:
    """Return the stack without the frames that belong to starting the rank."""
    starts = [n for n, frame in enumerate(stack, 1) if frame.file.endswith(_STARTS)]
    stack = stack[starts[-1] :] if starts else stack
    first = next((i for i, frame in enumerate(stack) if is_learners(frame)), 0)
    return stack[first:]
