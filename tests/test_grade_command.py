"""The command `grade` as people use it: once, again, interrupted, in scripts."""

import csv
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from course_lib.__main__ import main
from course_lib.grading import arguments, command, gradebook
from course_lib.grading.gradebook import GradingRun
from course_lib.grading.run.grader import Grader
from course_lib.grading.run.template import Template
from tests import grading, lacks
from tests.commands import COMMAND, Python
from tests.leftovers import Leftovers, becomes, below

ROOT = Path(__file__).parents[1]
WRONG = "def square(x):\n    return 0"
pytestmark = pytest.mark.faults


class Course:
    """A folder with a small exercise and what was handed in, graded by the command."""

    def __init__(self, folder, printed):
        self.folder, self.handed = folder, folder / "handed_in"
        self.exercises, self.printed = grading.release(folder / "exercises"), printed
        self.handed.mkdir()
        self.left = Leftovers()

    def hand_in(self, learner, **answers):
        (self.handed / learner).mkdir(exist_ok=True)
        data = grading.handed(**answers).read()
        (self.handed / learner / "small.ipynb").write_bytes(data)

    def start(self, *args):
        """The command as a process of its own, with its output."""
        env = {**os.environ, "COLUMNS": "100"}
        given = "grade", *self.options(args)
        return Python(COMMAND, *given, cwd=self.folder, env=env)

    def start_python(self, *args):
        """The same, but with a Python of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "course_lib", "grade", *self.options(args)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def options(self, args):
        given = [str(arg) for arg in args] or [str(self.handed)]
        return [f"--exercises={self.exercises}", "--json=grades.json", *given]

    def grade(self, *args):
        """Exit status, what was printed, and the grades by learner; in this process."""
        status = main(["grade", *self.options(args)])
        return status, "".join(self.printed()), self.grades()

    def grades(self):
        try:
            found = json.loads((self.folder / "grades.json").read_text())
        except FileNotFoundError:
            return {}
        return {one["learner"]: one for one in found["submissions"]}


@pytest.fixture(scope="module")
def template():
    """A template for all runs in this process: to start one takes seconds."""
    made = Template()
    yield made
    made.close()


@pytest.fixture
def course(tmp_path, template, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    warm = functools.partial(Grader, template=template)
    monkeypatch.setattr(command._Here, "grader", warm)
    made = Course(tmp_path, capfd.readouterr)
    yield made
    assert becomes(lambda: not made.left.found()), made.left.found()


def test_a_folder_is_graded_with_points_sentences_and_hints(course):
    course.hand_in("ada")
    course.hand_in("bob", square=WRONG)
    status, printed, found = course.grade()
    assert status == 0
    assert (found["ada"]["points"], found["bob"]["points"]) == (10, 8)
    assert found["bob"]["max_points"] == 10 and found["bob"]["status"] == "graded"
    task = found["bob"]["tasks"][0]
    assert task == {
        "id": "square-test",
        "points": 0,
        "max_points": 2,
        "outcome": "not yet",
        "message": "AssertionError: 3 squared is 9, found 0",
        "hint": "",
    }
    assert "8 of 10" in printed and "10 of 10" in printed


def test_a_second_run_grades_what_is_new_alone(course):
    course.hand_in("ada")
    course.grade()
    course.hand_in("bob")
    status, printed, found = course.grade()
    assert status == 0 and set(found) == {"ada", "bob"}
    assert "1 unchanged since graded" in printed
    course.hand_in("ada", square=WRONG)  # handed in again
    _, printed, found = course.grade()
    assert "1 unchanged since graded" in printed and found["ada"]["points"] == 8
    assert "unchanged since graded" not in course.grade(course.handed, "--again")[1]


def test_a_changed_exercise_is_graded_again(course):
    course.hand_in("ada")
    course.grade()
    file = course.exercises / "small.ipynb"
    file.write_text(file.read_text().replace("label(2)", "label(3)"))
    _, printed, found = course.grade()
    assert "unchanged since graded" not in printed and found["ada"]["points"] == 5


@pytest.mark.parametrize(
    ("file", "again"),
    [
        ("grading/scoring.py", True),
        ("grading/run/limits.py", True),
        ("exercises/e4_1/mistakes.json", True),
        ("grading/report/pages.py", False),
        ("grading/report/templates/style.css", False),
        ("grading/run/__pycache__/limits.cpython-313.pyc", False),
        ("grading/run/.limits.py.swp", False),
    ],
)
def test_a_change_of_what_decides_grades_again_and_one_of_pages_does_not(
    tmp_path, monkeypatch, file, again
):
    shutil.copytree(gradebook._PACKAGE / "grading", tmp_path / "grading")
    monkeypatch.setattr(gradebook, "_PACKAGE", tmp_path)
    monkeypatch.setattr(gradebook, "_REPORTS", tmp_path / "grading" / "report")
    before = gradebook.Gradebook(tmp_path, ()).setting
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    with open(tmp_path / file, "a") as opened:
        opened.write("changed")
    assert (gradebook.Gradebook(tmp_path, ()).setting != before) == again


# begins, and waits for its end: the test interrupts meanwhile
WAITING = "open({mark!r}, 'w').close()\nimport time; time.sleep(99)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_is_finished_when_grading_ends_early_is_not_run_twice(course, number):
    mark = course.folder / "began"
    course.hand_in("ada")
    course.hand_in("bob", before=WAITING.format(mark=str(mark)))
    process = course.start(course.handed, "-j1", "--no-sandbox")
    assert becomes(mark.exists)
    own = [one.pid for one in below(process.pid)]
    process.send_signal(number)
    printed = "".join(process.communicate(timeout=120))
    assert own and becomes(lambda: not course.left.found())
    if number == signal.SIGINT:
        assert process.code == 130
        assert "the same command goes on where it was" in printed
        assert set(course.grades()) == {"ada"}
    course.hand_in("bob")
    status, printed, found = course.grade(course.handed, "-j1", "--no-sandbox")
    assert status == 0 and "1 unchanged since graded" in printed
    assert {one["points"] for one in found.values()} == {10}


def test_an_interruption_leaves_the_grades_of_a_whole_run_alone(course):
    mark = course.folder / "began"
    course.hand_in("ada")
    course.hand_in("bob", before=WAITING.format(mark=str(mark)))
    whole = '{"submissions": []}'
    (course.folder / "grades.json").write_text(whole)
    process = course.start(course.handed, "-j1", "--no-sandbox", "--again")
    assert becomes(mark.exists)
    process.send_signal(signal.SIGINT)
    printed = " ".join("".join(process.communicate(timeout=120)).split())
    assert "left as it was, since this is not all: grades.json" in printed
    assert "interrupted, 1 not graded again: the same command begins anew" in printed
    assert (course.folder / "grades.json").read_text() == whole


def test_grades_are_in_the_order_of_learners_whoever_was_done_first():
    handed = [grading.Handed(b"", name, source=name) for name in ("bob", "Ada", "carl")]
    run = GradingRun(None, again=False)
    run.results = {one: one.learner for one in handed}
    assert run.graded() == ["Ada", "bob", "carl"]


@lacks.needs_sandbox()
def test_in_the_first_run_nobody_reads_the_grades_of_others(course):
    state = str(course.folder / "kept")
    course.hand_in("ada")
    look = f"def square(x):\n    raise ValueError(os.listdir({state!r}))"
    course.hand_in("zed", square=look)
    found = course.grade(course.handed, "-j1", f"--state={state}")[2]
    assert os.listdir(state) != []
    assert found["zed"]["tasks"][0]["message"] == "ValueError: []"


def test_other_notebooks_of_who_did_exercises_are_left_out_and_named(course):
    course.hand_in("ada")
    other = json.dumps(grading.notebook({}) | {"cells": [grading.cell("x", "1")]})
    for learner in ("ada", "bob"):
        (course.handed / learner).mkdir(exist_ok=True)
        (course.handed / learner / "Untitled.ipynb").write_text(other)
    _, printed, found = course.grade()
    assert "left out, since they are no exercises: ada/Untitled.ipynb" in printed
    assert found["ada"]["points"] == 10 and found["bob"]["status"] == "refused"


def test_a_zip_gives_a_table_and_a_page_for_each_learner(course):
    with zipfile.ZipFile(course.folder / "week.zip", "w") as archive:
        for learner in ("Ada L_1", "Bob_2"):
            name = f"{learner}_assignsubmission_file_/small.ipynb"
            archive.writestr(name, grading.handed().read())
    options = ("--csv=grades.csv", "--html=pages")
    status, _, found = course.grade(course.folder / "week.zip", *options)
    assert status == 0 and set(found) == {"Ada L", "Bob"}
    with open(course.folder / "grades.csv", encoding="utf-8-sig", newline="") as file:
        assert {row["learner"] for row in csv.DictReader(file)} == {"Ada L", "Bob"}
    assert len(list((course.folder / "pages").glob("*.html"))) == 3


def test_json_on_the_standard_output_is_nothing_else(course):
    course.hand_in("ada")
    process = course.start_python(course.handed, "--json=-")
    printed, _ = process.communicate(timeout=300)
    assert json.loads(printed)["submissions"][0]["learner"] == "ada"


def test_what_the_grader_cannot_do_is_its_own_failure_and_status_2(course):
    course.hand_in("ada")
    file = course.handed / "ada/small.ipynb"
    other = json.loads(file.read_text())
    other["metadata"]["course"] = {"stage": "09"}
    for number, cell in enumerate(other["cells"]):
        cell.update(grading.cell(f"answer-9-{number}", "pass", solution=True))
    file.write_text(json.dumps(other))
    status, printed, found = course.grade()
    assert status == 2
    assert found["ada"]["status"] == "grader failed" and found["ada"]["points"] is None
    assert "which none of these exercises has: small" in " ".join(printed.split())


@pytest.mark.parametrize(
    "args, sentence",
    [
        (["nowhere"], "nowhere"),
        (["."], "no notebook"),
        (["x.ipynb", "--exercises=none"], "none"),
    ],
)
def test_a_mistake_in_the_call_is_named_with_status_2(
    tmp_path, monkeypatch, capsys, args, sentence
):
    monkeypatch.chdir(tmp_path)
    assert main(["grade", *args]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "option, sentence",
    [
        ("-j=0", "'0' is no whole number from 1 on"),
        ("-j=many", "'many' is no whole number from 1 on"),
        ("--cell=-1", "'-1' is no number above 0"),
        ("--memory=4GB", "'4GB' is no number above 0"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_status_2(capsys, option, sentence):
    with pytest.raises(SystemExit, match="^2$"):
        main(["grade", "x.ipynb", option])
    assert sentence in capsys.readouterr().err


def test_without_a_name_ones_own_exercises_are_graded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="^2$"):
        main(["grade"])
    assert "name what to grade" in capsys.readouterr().err
    for place in ("exercises", "work/exercises"):
        (tmp_path / place).mkdir(parents=True)
        assert arguments.parse(["-j2"], jobs=1).paths == [Path(place)]
    assert arguments.parse([], jobs=1).exercises == ROOT / "exercises"


def test_without_a_sandbox_it_says_what_that_means(course):
    course.hand_in("ada")
    _, printed, _ = course.grade(course.handed, "--no-sandbox")
    assert "can do what you can do" in printed


def test_grades_that_cannot_be_kept_are_still_shown(course):
    course.hand_in("ada")
    (course.folder / "file").touch()
    status, printed, found = course.grade(course.handed, "--state=file")
    assert status == 0 and found["ada"]["points"] == 10
    assert "not kept for a later run" in printed


def test_a_table_that_cannot_be_written_is_named_and_grades_are_shown(course):
    course.hand_in("ada")
    (course.folder / "file").touch()
    status, printed, found = course.grade(course.handed, "--csv=file/grades.csv")
    assert status == 2 and found["ada"]["points"] == 10
    assert "cannot write" in printed and "Traceback" not in printed
    assert "10 of 10" in printed
