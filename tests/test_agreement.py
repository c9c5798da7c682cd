"""How `make nbgrader` mixes answers and tells differences; nbgrader is not run."""

import copy
import re

import pytest

from benchmarks.nbgrader import NbgraderFailed
from tests import agreement, tables
from tests.answers import wrong

STAGES = [path.name for path in agreement._stages()]


def exercise(name="05_shared_tensors.ipynb"):
    return agreement._read(agreement.ROOT / "exercises" / name)


def given(notebook):
    """The answers in a notebook by the id of their cells."""
    cells = notebook["cells"]
    return {c["id"]: c["source"] for c in cells if c["id"].startswith("answer-")}


def as_by_nbgrader(notebook):
    """The notebook with the differences that are known."""
    made = copy.deepcopy(notebook)
    for cell in made["cells"]:
        if cell["metadata"].get("nbgrader"):
            cell["metadata"]["nbgrader"] |= {"checksum": "1", "cell_type": "code"}
            cell["metadata"]["deletable"] = False
            cell["source"] = agreement._STUB.sub("# your code", "".join(cell["source"]))
    why = {"id": "why-5-1", "metadata": {"tags": ["solution-only"]}, "source": ""}
    made["cells"].insert(3, why)
    made["metadata"]["course_code"] = "1"
    del made["metadata"]["course"]["released"]
    return made


@pytest.mark.parametrize("name", STAGES)
def test_a_mixture_has_answers_of_both_kinds_and_no_stub(name):
    for number in (0, 1):
        answers = given(agreement.mixture(exercise(name), number))
        sources = {one.source for one in wrong()}
        kinds = [source in sources for source in answers.values()]
        assert kinds == [bool((place + number) % 2) for place in range(len(kinds))]
        assert not any("NotImplementedError" in text for text in answers.values())


def test_another_mixture_has_other_answers():
    first, second = (given(agreement.mixture(exercise(), n)) for n in (0, 1))
    assert first.keys() == second.keys()
    assert not set(first.values()) & set(second.values())


def test_answers_that_only_a_time_limit_ends_are_left_out():
    names = [answer.name for answer in agreement.answers("2.4", "wrong")]
    assert "never_ends" not in names
    assert "forward_only" in names


def test_known_differences_of_a_release_are_none():
    notebook = exercise()
    assert agreement.released_differently(notebook, as_by_nbgrader(notebook)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda cells: cells.pop(2), "setup: .* by nbgrader"),
        (lambda cells: cells[7].update(source="cl.check()"), "check-5-1: .*cl.check"),
        (lambda cells: cells[7]["metadata"].pop("editable"), "check-5-1: .*editable"),
        (lambda cells: cells.reverse(), "cells are in the order"),
    ],
)
def test_another_release_is_told_with_its_cell(change, told):
    ours, theirs = exercise(), exercise()
    change(theirs["cells"])
    [line] = agreement.released_differently(ours, theirs)
    assert re.match(told, line)


def test_a_task_with_other_points_is_told_and_an_equal_one_is_not():
    ours = {"right": {"check-5-1": 3.0, "check-5-2": 4.0}}
    theirs = {"right": {"check-5-1": 3, "check-5-2": 0.0}}
    told = agreement.compared(ours, theirs, stage="05")
    assert told == ["05-right, check-5-2: 4.0 points by grade, 0.0 by nbgrader"]


def test_a_learner_whom_one_grader_does_not_know_is_told():
    told = agreement.compared({"right": {"check-5-1": 3.0}}, {}, stage="05")
    assert told == ["05-right, check-5-1: 3.0 points by grade, None by nbgrader"]
    assert agreement._line("05-right", {"a": 3.0}, None).endswith("; none by nbgrader")


def test_a_solution_without_all_points_is_told_although_both_agree():
    ours = {"right": {"check-5-1": 3.0}, "stubs": {"check-5-1": 0.0}}
    told = list(agreement._unexpected(ours, exercise(), "05"))
    assert told == ["05-right: 3.0 points, expected 9"]


def test_a_missing_nbgrader_is_a_failure_of_its_own(monkeypatch, capsys):
    def refuse():
        raise NbgraderFailed("no nbgrader here")

    monkeypatch.setattr(agreement, "refuse_missing", refuse)
    assert agreement.main([]) == 2
    assert capsys.readouterr().out == "no nbgrader here\n"


def test_a_name_that_fits_no_submission_is_no_agreement(capsys):
    assert agreement.main(["-k", "05-left"]) == 2
    assert "no submission is named 05-left" in capsys.readouterr().out


def test_words_of_a_notebook_do_not_change_points_and_cells_do(monkeypatch):
    before, changed = agreement.stamp(), exercise()
    monkeypatch.setattr(agreement, "_exercise", lambda path: changed)
    same = agreement.stamp()
    assert same != before  # the others are gone
    for cell in changed["cells"]:
        cell["source"] = f"{''.join(cell['source'])} and more"
    assert agreement.stamp() == same
    changed["cells"][7]["metadata"]["nbgrader"]["points"] += 1
    assert agreement.stamp() != same


def test_both_graders_gave_the_same_points_when_they_were_last_compared():
    table = tables.read("agreement")
    assert table["sources"] == agreement.stamp(), (
        f"tests/tables/agreement.json of {table['made']} was made from other sources"
        " than those of today. Make it anew and look at what differs: make nbgrader"
        " ARGS=--save"
    )
    rows = table["rows"]
    learners = ("right", "stubs", "mixed1", "mixed2")
    assert {*rows} == {f"{name[:2]}-{who}" for name in STAGES for who in learners}
    assert [name for name, row in rows.items() if row["grade"] != row["nbgrader"]] == []
