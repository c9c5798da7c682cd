"""The programs and reports of exercise 7.4 are real, and its answers the only ones."""

import json
import linecache
import re
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch.distributed as dist

import course_lib as cl
from course_lib.exercises.e7_4.judge import CULPRITS

SOLUTION = Path(__file__).parents[1] / "solutions/07_collectives.ipynb"
CELLS = json.loads(SOLUTION.read_text(encoding="utf-8"))["cells"]
_CALLS = ("init_process_group", "destroy_process_group", "new_group")
_CALLS += ("all_reduce", "barrier", "isend", "recv")


def shown(letter):
    """The program and the report of a cell."""
    [cell] = [c for c in CELLS if c["id"] == f"report-7-4-{letter.lower()}"]
    program, report = re.findall(r"```text\n(.*?)\n```", "".join(cell["source"]), re.S)
    return re.sub(r"^ *\d+(  |$)", "", program, flags=re.M) + "\n", report


def train_of(letter, variables):
    program, name = shown(letter)[0], f"{letter.lower()}.py"
    linecache.cache[name] = len(program), None, program.splitlines(True), name
    exec(compile(program, name, "exec"), variables)
    return variables["train"]


def world_size(letter):
    return int(re.search(r"on (\d+) ranks", shown(letter)[1])[1])


@pytest.mark.parametrize("letter", CULPRITS)
def test_the_program_stands_still_with_this_report(letter):
    train = train_of(letter, {"__name__": "__main__"})
    with pytest.raises(cl.LaunchStalled) as caught:
        cl.launch(train, world_size=world_size(letter))
    assert str(caught.value) == shown(letter)[1]


def lines_run(letter, rank):
    """The lines of the program that a rank runs if nobody waits for anybody."""
    train, lines = train_of(letter, {"__name__": "__main__"}), set()

    def trace(frame, event, _):
        if event == "line" and frame.f_code is train.__code__:
            lines.add(frame.f_lineno)
        return trace

    with mock.patch.multiple(dist, **{name: mock.Mock() for name in _CALLS}):
        sys.settrace(trace)
        try:
            train(rank, world_size(letter))
        finally:
            sys.settrace(None)
    return lines


@pytest.mark.parametrize("letter", CULPRITS)
def test_one_rank_alone_leaves_the_way_of_the_others_and_this_is_the_line(letter):
    ranks = range(world_size(letter))
    runs = [frozenset(lines_run(letter, rank)) for rank in ranks]
    usual = max(runs, key=runs.count)
    others = [(rank, min(runs[rank] ^ usual)) for rank in ranks if runs[rank] != usual]
    assert others == [CULPRITS[letter]]
