"""The clinic of exercise 4.10: its texts, and what each fault of clinic.py does."""

import functools
from pathlib import Path

import pytest

from course_lib.exercises.compare import CLOSE, gap
from course_lib.exercises.e4_10 import programs
from course_lib.launching.launcher import launch
from tests import answers
from tests.checking import cells, given, notebook_of

ROOT = Path(__file__).parent.parent
ENTRIES = {  # of the solution: one for each fault of run E
    cause: entry
    for answer in answers.right()
    if answer.id == "4.10-one_change_each"
    for entry in (lambda names: exec(answer.source, names) or names)({})["clinic"]()[
        "E"
    ]
    for cause in [entry[0]]
}


def trained(rank, world_size, text):
    """What the script of this text gives."""
    names = {"__name__": "clinic"}
    exec(compile(text, "clinic.py", "exec"), names)
    return names["train"](rank, world_size)


@functools.cache
def result(ranks, *left):
    """Weights of the ranks, and how many are right of how many; `left` stays ill."""
    text = programs.PROGRAMS["E"]
    for cause, old, new in ENTRIES.values():
        if cause not in left:
            assert text.count(old) == 1
            text = text.replace(old, new)
    return list(launch(trained, text, world_size=ranks))


def alike(ranks, *left):
    """Whether all ranks give what one rank gives whose script has all its faults."""
    [(weights, right, count)] = result(1, *ENTRIES)
    return all(
        gap(state, weights) <= CLOSE and (found, of) == (right, count)
        for state, found, of in result(ranks, *left)
    )


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_script_without_its_faults_gives_what_one_rank_gives(ranks):
    assert alike(ranks)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("fault", programs.FAULTS["E"])
def test_each_fault_alone_changes_what_several_ranks_give(fault, ranks):
    assert not alike(ranks, fault)


def test_the_learners_script_is_the_one_that_the_check_mends():
    script = ROOT / "notebooks" / "scripts" / "clinic.py"
    assert script.read_text(encoding="utf-8") == programs.PROGRAMS["E"]


@pytest.mark.parametrize("run", "ABCD")
def test_the_notebook_shows_the_runs_that_the_check_mends(run):
    shown = cells(notebook_of("4.10"))["plain-4-10"]
    assert programs.PROGRAMS[run].strip() in shown


def test_the_notebook_names_the_causes_that_the_check_knows():
    names = given(notebook_of("4.10"))
    assert names["CAUSES"] == programs.CAUSES
    assert set().union(*programs.FAULTS.values()) <= set(programs.CAUSES)
