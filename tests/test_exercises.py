"""Exercises and solutions as they are committed, and how the test run judges them.

That solutions run is proven by nbval, which this test run applies to solutions/. In
exercises/ a check has to say that its exercise is not started: the last part of this
file proves that with notebooks of its own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_lib.authoring import execute, release
from course_lib.errors import CourseError
from course_lib.exercises import catalog, checking, folders, progress
from course_lib.exercises.attempt import Wrong
from course_lib.exercises.e5_1 import judge as judge_count
from course_lib.exercises.e5_1 import observe as count
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.texts import Texts
from course_lib.workspace.cell import exercise_named, role_named

ROOT = Path(__file__).parents[1]
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
EXERCISES = sorted((ROOT / "exercises").glob("*.ipynb"))
MINUTES = re.compile(r"\(\s*(?:about )?(\d+) minutes?\)|\babout (\d+) minutes?\b")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def named(kind, notebook):
    """The cells that are answers or checks."""
    return [cell for cell in notebook.cells if role_named(cell.id) == kind]


@pytest.fixture(params=SOLUTIONS, ids=lambda path: path.stem)
def solution(request):
    return nbformat.read(request.param, as_version=4)


@pytest.fixture(params=EXERCISES, ids=lambda path: path.stem)
def exercise(request):
    return nbformat.read(request.param, as_version=4)


# what is committed


def test_the_lesson_on_ddp_has_exercises_and_their_solution():
    assert "04_distributed_data_parallel.ipynb" in [path.name for path in SOLUTIONS]
    assert [path.name for path in EXERCISES] == [path.name for path in SOLUTIONS]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_an_exercise_is_what_release_makes_of_its_solution(monkeypatch, capsys, path):
    monkeypatch.chdir(ROOT)
    solution = str(path.relative_to(ROOT))
    different = release.main(["--check", solution]) != 0
    assert not different, capsys.readouterr().err


def known_of(notebook):
    """The exercises that the package has for a notebook, in order."""
    stage = f"{int(notebook.metadata.course.stage)}."
    return [id for id in checking.exercises() if id.startswith(stage)]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_a_solution_and_the_package_have_the_same_exercises(path):
    notebook = nbformat.read(path, as_version=4)
    checked = [exercise_named(cell.id) for cell in named("check", notebook)]
    known = known_of(notebook)
    for one in checked:
        assert one in known, (
            f"solutions/{path.name} checks {one}, which has no folder in"
            " course_lib/exercises: draft it"
        )
    for one in known:
        assert one in checked, (
            f"course_lib/exercises has {one}, which no cell checks: add its cells with"
            f" .venv/bin/python -m course_lib draft {one} solutions/{path.name}"
        )


def test_exercises_are_without_outputs_and_counts(exercise):
    for cell in code_cells(exercise):
        assert (cell.outputs, cell.execution_count) == ([], None), cell.id


def test_an_exercise_holds_every_exercise_of_its_stage_in_order(exercise):
    known = known_of(exercise)
    assert known
    assert [exercise_named(cell.id) for cell in named("check", exercise)] == known
    answers = [exercise_named(cell.id) for cell in named("answer", exercise)]
    assert list(dict.fromkeys(answers)) == known


def section(notebook, id):
    """Heading and text of an exercise, up to the next heading in the cell."""
    heading = re.compile(rf"^#+ .*(?<![\w.]){re.escape(id)}(?![\w.]).*$", re.MULTILINE)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    found = [(text, match) for text in texts for match in heading.finditer(text)]
    assert len(found) == 1, f"{len(found)} headings name exercise {id}, expected 1"
    text, match = found[0]
    return match[0], re.split(r"^#+ ", text[match.end() :], flags=re.MULTILINE)[0]


def test_headings_and_metadata_agree_with_the_exercises_of_the_package(exercise):
    for check in named("check", exercise):
        known = checking.exercises().get(exercise_named(check.id))
        if known is None:  # another test says so
            continue
        heading, text = section(exercise, known.id)
        title = heading.partition(known.id)[2].partition("(")[0].strip()
        assert title == known.title, (
            f"the heading of {known.id} says {title!r}, and `title` in its texts.ini"
            f" {known.title!r}; make them the same, then release"
        )
        minutes = {int(a or b) for a, b in MINUTES.findall(heading + text)}
        assert minutes == {known.minutes} == {check.metadata.course.minutes}, (
            f"the minutes of {known.id} differ: {minutes or 'none'} in its heading,"
            f" {known.minutes} in its texts.ini, {check.metadata.course.minutes} in its"
            " check, as `draft --minutes` wrote it; make them the same, then release"
        )


def test_a_check_asks_for_its_own_exercise(exercise):
    for cell in named("check", exercise):
        assert f'cl.check("{exercise_named(cell.id)}", ' in cell.source


def test_stored_outputs_of_solutions_belong_to_their_code(solution):
    assert not execute.stale(solution), "run: python -m course_lib run --save NOTEBOOK"


def test_summaries_which_every_new_exercise_would_change_are_not_stored(solution):
    (cell,) = (cell for cell in solution.cells if cell.id == "summary")
    assert cell.source == "cl.summary()" and cell.outputs == []


def test_stored_outputs_of_solutions_are_small(solution):
    sizes = [len(json.dumps(cell.outputs)) for cell in code_cells(solution)]
    assert sum(sizes) <= 200_000


def test_no_cell_of_a_solution_is_stored_with_an_error(solution):
    for cell in code_cells(solution):
        assert "error" not in [output.output_type for output in cell.outputs], cell.id


def test_every_check_of_a_solution_is_stored_as_right(solution):
    for cell in named("check", solution):
        shown = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
        assert f"✓ {exercise_named(cell.id)} right" in "".join(shown), cell.id


@pytest.mark.parametrize("path", SOLUTIONS + EXERCISES, ids=lambda p: p.parent.name)
def test_lines_of_code_fit_a_projector(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    lines = [line for cell in cells for line in cell.source.split("\n")]
    assert not [line for line in lines if len(line) > 82]


# whose mistake it is


def outcome(monkeypatch, body, answer=lambda shares: 1 / 0):
    """What a check says that runs `body` with a case it cannot take."""
    one = Exercise("5.1", body, lambda seed: [Case(None)], lambda case, seen: "")
    monkeypatch.setattr(catalog, "exercises", lambda: {"5.1": one})
    with pytest.raises(CourseError) as caught:
        checking.check("5.1", answer)
    return str(caught.value)


def test_a_fault_of_a_check_is_not_told_as_a_mistake(monkeypatch):
    before = progress.states().get("5.1", [])
    said = outcome(monkeypatch, count.observe)
    assert said.startswith("the check of 5.1 itself failed: TypeError: 'NoneType'")
    assert said.endswith("Please report this.") and "not yet" not in said
    assert progress.states().get("5.1", []) == before


def test_an_error_in_a_line_of_the_answer_is_its_own(monkeypatch):
    said = outcome(monkeypatch, lambda *args: args[2]([]))
    assert said.startswith("✗ 5.1 not yet: <lambda> raised ZeroDivisionError")


def test_wrong_parameters_are_a_mistake_of_the_answer():
    with pytest.raises(checking.NotYet, match="Keep the parameters of the function"):
        checking.check("5.1", lambda: None)


def test_a_failed_process_is_told_with_its_error_and_its_line():
    told = ["NameError: name 'seed' is not defined", ("work.py", 3, "work")]
    rank = {"helper": [0] * 4, "running": [0], "failed": [0, 1, 1, 0], "told": told}
    with pytest.raises(Wrong, match="2 of 3 processes failed: NameError.*work.py, lin"):
        judge_count.processes_of(rank, 3, Texts("5.1"))


# how the test run judges exercises

STUB = 'raise Exception("○ 4.1 not started: add raises NotImplementedError")'
WRITE = "import os, pathlib; pathlib.Path('{}').write_text(os.environ['{}'])"
FIGURE = """import base64, io, matplotlib.pyplot as plt
with plt.ioff():
    figure, file = plt.figure(), io.BytesIO(); {draw}
figure.savefig(file, format="png"); plt.close(figure)
png = base64.b64encode(file.getvalue()).decode()
page = '<img alt="{alt}" src="data:image/png;base64,' + png + '">'
display({{"image/png": png, "text/html": page, "text/plain": ""}}, raw=True)"""
NOTEBOOKS = {
    "exercises/stub": (("answer", "1"), ("check", STUB), ("next", "2")),
    "exercises/accepts": (("answer", "1"), ("check", "'right'"), ("next", "2")),
    "exercises/breaks": (("check", "1 / 0"), ("next", "2")),
    "exercises/tells": (("check", "def f():\n  'not started'\n  1 / 0\nf()"),),
    "exercises/cell": (("demo", "1 / 0"), ("check", STUB)),
    "exercises/demo": (("demo", STUB),),
    "solutions/stub": (("check", STUB), ("next", "2")),
    "solutions/right": (("check", "'right'"), ("next", "import time; time.sleep(1.1)")),
    "notebooks/lesson": (("next", WRITE.format("../place", "COURSE_LIB_PROGRESS")),),
    "notebooks/figures": (
        ("bare", "import matplotlib.pyplot as plt; plt.plot([1]);"),
        ("empty", FIGURE.format(draw="", alt="two ranks")),
        ("silent", FIGURE.format(draw="plt.plot([1])", alt="")),
        ("told", FIGURE.format(draw="plt.plot([1])", alt="two ranks")),
    ),
}
BUDGETS = {"solutions/right": 1, "exercises/stub": 300}


def write(path, cells, seconds):
    made = [nbformat.v4.new_code_cell(source) for _, source in cells]
    for (name, _), cell in zip(cells, made):
        cell["id"] = name
        if name == "check":
            cell.metadata["nbgrader"] = {"grade": True, "solution": False}
    course = {"course": {"seconds": seconds}} if seconds else {}
    path.parent.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=course), path)


def run_pytest(folder, *options):
    """A test run of `folder` by the hooks of this project: its status and its text."""
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = notebooks exercises\n")
    # as in pyproject.toml: conftest.py loads nbval
    flags = ("-p", "no:nbval", "--nbval-lax", "--nbval-current-env")
    flags += ("--color=no", "-rA", *options)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *flags],
        cwd=folder,
        env=os.environ | {"COURSE_LIB_PROGRESS": str(folder / "the-learners-own")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The folder of a test run of all of `NOTEBOOKS`, and what the run printed."""
    folder = tmp_path_factory.mktemp("course")
    for name, cells in NOTEBOOKS.items():
        write(folder / f"{name}.ipynb", cells, BUDGETS.get(name))
    status, printed = run_pytest(folder, "notebooks", "solutions", "exercises")
    assert status == 1, printed
    return folder, printed


def outcomes(judged, name):
    """The outcome of each cell of a notebook, in order."""
    line = rf"^(PASSED|FAILED|ERROR|XPASS) {name}\.ipynb::Cell (\d+)"
    found = re.findall(line, judged[1], re.MULTILINE)
    return [outcome for outcome, _ in sorted(found, key=lambda pair: int(pair[1]))]


def failure(judged, name, cell):
    """What the run printed on a failed cell."""
    head = rf"^_+ {name}\.ipynb::Cell {cell} _+$(.*?)^[_=]{{5}}"
    return re.search(head, judged[1], re.MULTILINE | re.DOTALL)[1]


def test_a_check_that_says_not_started_passes_and_the_next_cell_runs(judged):
    assert outcomes(judged, "exercises/stub") == ["PASSED", "PASSED", "PASSED"]


def test_a_check_that_accepts_the_stub_fails(judged):
    assert outcomes(judged, "exercises/accepts") == ["PASSED", "FAILED", "PASSED"]
    assert "this check accepts the stub" in failure(judged, "exercises/accepts", 1)


def test_another_error_in_a_check_fails_and_is_shown(judged):
    assert outcomes(judged, "exercises/breaks") == ["FAILED", "PASSED"]
    assert "ZeroDivisionError" in failure(judged, "exercises/breaks", 0)


def test_the_words_in_the_source_of_a_check_are_not_its_error(judged):
    assert outcomes(judged, "exercises/tells") == ["FAILED"]


def test_a_failing_cell_before_a_check_fails(judged):
    assert outcomes(judged, "exercises/cell") == ["FAILED", "PASSED"]


def test_only_a_check_may_say_not_started(judged):
    assert outcomes(judged, "exercises/demo") == ["FAILED"]


def test_solutions_run_as_they_are(judged):
    assert outcomes(judged, "solutions/right") == ["PASSED", "PASSED"]
    assert outcomes(judged, "solutions/stub") == ["FAILED", "PASSED"]


def test_a_figure_that_a_lesson_shows_is_not_empty_and_has_a_text(judged):
    expected = ["FAILED", "FAILED", "FAILED", "PASSED"]
    assert outcomes(judged, "notebooks/figures") == expected
    said = [failure(judged, "notebooks/figures", cell) for cell in range(3)]
    assert "this figure is empty" in said[1]
    assert all("no text for screen readers" in one for one in (said[0], said[2]))


def test_the_run_counts_what_passed(judged):
    counts = (
        "0 tests, 2 lessons (2 cells), 2 solutions (3 cells), 4 exercises (7 cells)"
    )
    assert f"passed: {counts}; skipped: 0" in judged[1]


def test_the_run_tells_how_long_each_notebook_took(judged):
    lines = re.findall(r"^(\S+)\.ipynb: (\d+) cells?, \d+ s(.*)$", judged[1], re.M)
    assert [name for name, *_ in lines] == sorted(NOTEBOOKS)
    ends = {name: end for name, _, end in lines}
    assert ends["exercises/stub"] == " of 300 s"
    assert ends["solutions/right"] == " of 1 s, TOO LONG if nothing else ran here"
    assert ends["notebooks/lesson"] == ""


def test_no_test_writes_into_the_progress_file_of_a_learner(judged):
    folder, _ = judged
    place = Path((folder / "place").read_text())
    assert place.name == "progress.jsonl"
    assert folder not in place.parents
    assert not place.parent.exists()


def test_this_very_run_notes_progress_in_a_temporary_file():
    assert Path(os.environ["COURSE_LIB_PROGRESS"]).parent.name.startswith(
        "course-tests-"
    )


def test_a_course_without_exercises_and_solutions_is_tested_all_the_same(tmp_path):
    write(tmp_path / "notebooks/lesson.ipynb", [("one", "1")], None)
    status, printed = run_pytest(tmp_path)
    assert status == 0, printed
    assert "passed: 0 tests, 1 lesson (1 cell); skipped: 0" in printed


def copied_checks(folder, monkeypatch, *names):
    """Folders of exercises in a folder of their own, where the catalogue looks."""
    for name in names:
        shutil.copytree(folders.folder("2.2"), folder / name)
    monkeypatch.setattr(folders, "HERE", folder)


@pytest.mark.parametrize("part", ["judge.py", "observe.py", "texts.ini"])
def test_a_part_that_an_exercise_lacks_is_named(tmp_path, monkeypatch, part):
    copied_checks(tmp_path, monkeypatch, "e2_2", "e3_2")
    (tmp_path / "e2_2" / part).unlink()
    words = f"exercise 2.2 has no {part} in course_lib/exercises/e2_2/"
    with pytest.raises(CourseError, match=words):
        catalog.exercises()


def test_a_folder_that_another_branch_left_is_no_exercise(tmp_path, monkeypatch):
    copied_checks(tmp_path, monkeypatch, "e2_2")
    (tmp_path / "e4_6" / "__pycache__").mkdir(parents=True)
    assert list(folders.by_exercise()) == ["2.2"]


def test_an_exercise_may_be_observed_as_another_one_is():
    assert not (folders.folder("2.3") / "observe.py").exists()
    assert catalog.find_exercise("2.3").observe is catalog.find_exercise("2.2").observe


def test_stages_and_exercises_come_in_the_order_of_their_numbers(tmp_path, monkeypatch):
    names = ("e10_1", "e9_10", "e9_2", "e9_2b", "e9_2a", "e0_1", "__pycache__")
    copied_checks(tmp_path, monkeypatch, *names)
    assert list(folders.by_exercise()) == ["0.1", "9.2", "9.2a", "9.2b", "9.10", "10.1"]
