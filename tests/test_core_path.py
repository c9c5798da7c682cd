"""The core path: short enough, made of what is there, and shown."""

import json
import re

import pytest

from course_lib.authoring.path import complete
from course_lib.exercises.catalog import exercises
from course_lib.lessons import core_path
from course_lib.lessons.summary import summary
from tests import pages

PATH = "map", "next", "title"  # cells that `python -m course_lib path` writes
TASKS = list(exercises().values())
LESSONS = {
    path.name.partition("_")[0]: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((pages.ROOT / "notebooks").glob("*.ipynb"))
}


def test_the_core_path_takes_at_most_eight_hours():
    minutes = [
        LESSONS[number]["metadata"]["course"]["minutes"]
        for number in core_path.core_lessons()
    ]
    minutes += [t.minutes for t in TASKS if t.id in core_path.core_exercises()]
    assert 0 < sum(minutes) <= 8 * 60


def test_exercises_of_the_core_path_belong_to_its_lessons():
    own = [
        task.id
        for number in core_path.core_lessons()
        for task in core_path.exercises_of(number, TASKS)
    ]
    assert {*core_path.core_exercises()} <= {*own}


def test_each_exercise_belongs_to_one_lesson():
    numbers = {*LESSONS, *core_path._read()["exercises"]}
    own = [t.id for n in numbers for t in core_path.exercises_of(n, TASKS)]
    assert sorted(own) == sorted(task.id for task in TASKS)


def test_the_readme_says_how_many_evenings_the_rest_takes():
    minutes = [lesson["metadata"]["course"]["minutes"] for lesson in LESSONS.values()]
    whole = sum(minutes) + sum(task.minutes for task in TASKS)
    (told,) = re.findall(r"The rest, (\d+) evenings", pages.README.read_text())
    assert abs(whole / 60 - 8 - int(told)) <= 0.5  # of an hour, as the core path's


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_ends_with_its_exercises_the_next_lesson_and_its_kernel(number):
    cell = LESSONS[number]["cells"][-1]
    text, own = "".join(cell["source"]), core_path.exercises_of(number, TASKS)
    assert cell["id"] == "next" and "*Kernel › Shut Down Kernel*" in text
    named = re.findall(r"\b\d\.\d+[a-z]?\b", text)
    assert named == [task.id for task in own]
    assert bool(own) == (f"](../exercises/{number[:2]}_" in text)
    assert bool(own) != ("no exercise of its own" in text)
    behind = [name for name in LESSONS if name > number]
    assert not behind or f"]({behind[0]}_" in text


def test_exercises_of_several_lessons_say_which_belong_to_which():
    for path in sorted((pages.ROOT / "exercises").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        told = "".join(cells[0]["source"])
        own = {
            name: [task.id for task in core_path.exercises_of(name, TASKS)]
            for name in LESSONS
            if name[:2] == path.name[:2]
        }
        named = {
            name: re.findall(r"\d\.\d+[a-z]?", ids)
            for name, ids in re.findall(r"\[lesson (\w+)\]\(\S+\): ([^A]*)\.", told)
        }
        expected = {name: ids for name, ids in own.items() if ids}
        assert named == (expected if len(expected) > 1 else {}), path.name


def test_the_cells_of_the_path_are_as_the_command_writes_them():
    for path, notebook in complete(pages.ROOT).items():
        stored = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = {cell["id"]: "".join(cell["source"]) for cell in stored}
        made = {c.id: c.source for c in notebook.cells if c.id in PATH}
        assert made.items() <= texts.items(), "run: python -m course_lib path"


def test_lessons_and_exercises_of_the_core_path_have_a_star():
    rows = pages.table(pages.README.read_text(encoding="utf-8"), pages.TOP)
    starred = [row[2:].split()[0] for row in rows.splitlines() if core_path.STAR in row]
    assert tuple(starred) == core_path.core_lessons(), "make pages"
    told = repr(summary())
    assert all(f"{name} ★ " in told for name in core_path.core_exercises())
    assert "eight evenings" in told and "eight evenings" in summary()._repr_html_()
