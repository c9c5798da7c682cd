"""Rows of wrong answers become the answers that they stand for."""

import pytest

from course_lib.exercises.checking import exercises
from tests import answers

SOURCE = "def f(x):\n    y = x\n    return y\n"


def test_a_row_changes_lines_of_a_right_answer():
    row = {"old": "    y = x\n", "new": "    y = -x\n"}
    assert answers.edited(SOURCE, row, "row") == SOURCE.replace("= x", "= -x")


def test_a_row_may_take_lines_away():
    row = {"old": "    y = x\n", "new": ""}
    assert answers.edited(SOURCE, row, "row") == "def f(x):\n    return y\n"


def test_a_row_may_have_several_changes():
    edits = [
        {"old": "def f(x):\n", "new": "def f(y):\n"},
        {"old": "    y = x\n", "new": ""},
    ]
    assert answers.edited(SOURCE, {"edits": edits}, "row") == (
        "def f(y):\n    return y\n"
    )


@pytest.mark.parametrize("old", ["    z = 1\n", "    "])
def test_a_row_whose_place_is_not_clear_is_refused(old):
    with pytest.raises(AssertionError, match="times in the right answer, not once"):
        answers.edited("    a\n    b\n" * 2, {"old": old, "new": ""}, "row")


def test_names_are_given_once():
    ids = [answer.id for answer in answers.wrong()]
    assert len(ids) == len(set(ids)) > 800


def test_a_sibling_names_a_mistake_that_there_is():
    names = {(answer.exercise, answer.name) for answer in answers.wrong()}
    strange = [
        answer.place
        for answer in answers.wrong()
        if answer.same_as and (answer.exercise, answer.same_as) not in names
    ]
    assert strange == []


@pytest.mark.parametrize("exercise", exercises())
def test_there_are_answers_that_were_written_without_the_check(exercise):
    unseen = answers.unseen(exercise)
    if not any(unseen.values()):
        pytest.skip(f"nobody has answered {exercise} from its text alone yet")
    assert len(unseen["right"]) >= 5 and len(unseen["wrong"]) >= 10
    assert all(row["differs"] and row["source"] for row in unseen["wrong"].values())
    assert all(row["why"] for row in unseen.get("undecided", {}).values())
    sources = [row["source"] for kind in unseen.values() for row in kind.values()]
    assert len(set(sources)) == len(sources)


def test_hints_that_were_read_are_those_of_answers_that_there_are():
    for exercise in exercises():
        there = answers.unseen(exercise)["wrong"]
        assert answers.judged(exercise).keys() <= there.keys(), exercise
