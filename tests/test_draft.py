"""The cells of a new exercise: complete, in place, refused where they do not belong."""

import shutil
from pathlib import Path

import nbformat
import pytest

import course_lib.exercises
from course_lib.authoring import draft, release
from course_lib.exercises import folders
from course_lib.exercises.checking import exercises
from course_lib.exercises.exercise import Wrong

PACKAGE = "course_lib/exercises"
SOLUTIONS = Path(__file__).parents[1] / "solutions"


@pytest.fixture
def solution(tmp_path):
    """A copy of the solutions of stage 04."""
    (tmp_path / "solutions").mkdir()
    [path] = SOLUTIONS.glob("04_*.ipynb")
    return Path(shutil.copy(path, tmp_path / "solutions"))


def ids(notebook):
    return [cell.id for cell in notebook.cells]


def test_a_draft_keeps_every_rule_and_comes_before_the_summary(solution):
    assert draft.main(["4.11", str(solution)]) == 0
    made = release.read_solution(solution)  # it knows the rules
    new = ["text-4-11", "answer-4-11", "check-4-11", "why-4-11"]
    first = ids(made).index("text-4-11")
    assert ids(made)[first : first + 6] == [*new, "summary-text", "summary"]


def test_the_exercise_made_from_a_draft_is_a_stub_with_its_check(solution):
    draft.main(["4.11", str(solution)])
    exercise = release.release(release.read_solution(solution))
    made = {cell.id: cell.source for cell in exercise.cells}
    assert made["answer-4-11"].endswith("raise NotImplementedError")
    assert made["check-4-11"] == 'cl.check("4.11", answer)'
    assert "why-4-11" not in made


def test_the_other_cells_stay_as_they_were(solution):
    before = nbformat.read(solution, as_version=4)
    draft.main(["4.11", str(solution)])
    after = nbformat.read(solution, as_version=4)
    assert [cell for cell in after.cells if cell.id in ids(before)] == before.cells
    assert after.metadata == before.metadata


@pytest.mark.parametrize(
    "exercise, why",
    [
        ("4.1", "4.1 is there already"),
        ("5.1", "5.1 is not of stage 04"),
        ("4,6", "as in 4.6"),
    ],
)
def test_an_exercise_that_does_not_belong_there_is_refused(
    solution, capsys, exercise, why
):
    before = solution.read_bytes()
    assert draft.main([exercise, str(solution)]) == 1
    assert why in capsys.readouterr().err
    assert solution.read_bytes() == before


def test_options_say_what_the_check_asks_for(solution):
    words = "4.11 {} --function mean --points 3 --minutes 15 --seconds 90"
    assert draft.main(words.format(solution).split()) == 0
    made = {cell.id: cell for cell in release.read_solution(solution).cells}
    check = made["check-4-11"]
    assert made["answer-4-11"].source.startswith("def mean():")
    assert check.source == 'cl.check("4.11", mean)'
    assert check.metadata.nbgrader.points == 3
    assert check.metadata.course == {"minutes": 15, "timeout": 90}
    assert "(about 15 minutes)" in made["text-4-11"].source


@pytest.mark.parametrize(
    "option, why",
    [
        ("--function=my mean", "'my mean' is no name of a function"),
        ("--function=class", "'class' is no name of a function"),
        ("--points=0", "'0' is no whole number above 0"),
        ("--minutes=ten", "'ten' is no whole number above 0"),
    ],
)
def test_an_option_that_cannot_be_is_named(solution, capsys, option, why):
    before = solution.read_bytes()
    with pytest.raises(SystemExit):
        draft.main(["4.11", str(solution), option])
    assert why in capsys.readouterr().err
    assert solution.read_bytes() == before


def test_a_draft_ends_with_what_comes_next(solution, capsys):
    draft.main(["4.11", str(solution)])
    said = capsys.readouterr().out
    root = SOLUTIONS.parent
    assert "docs/instructors.md" in said and f"{PACKAGE}/e4_11/" in said
    for name in ("observe.py", "judge.py", "texts.ini"):
        assert name in said
        assert (solution.parents[1] / PACKAGE / "e4_11" / name).exists()
    assert "tests/exercises/e4_11/" in said
    [step] = [line for line in said.splitlines() if "make test" in line]
    page = (root / "docs/instructors.md").read_text(encoding="utf-8")
    assert step.strip() in page


def test_the_modules_of_a_draft_check_an_answer(solution, monkeypatch):
    draft.main(["4.11", str(solution), "--function", "mean", "--minutes", "15"])
    home = solution.parents[1] / PACKAGE
    for path in (home / "e4_11").glob("[!_]*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) <= 88  # as ruff asks of all modules
    # the exercises of the course, and this one
    package = course_lib.exercises
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(home)])
    monkeypatch.setattr(folders, "HERE", home)
    assert list(exercises()) == ["4.11"]
    exercise = exercises()["4.11"]
    assert (exercise.minutes, len(exercise.hints)) == (15, 2)
    case, *_ = exercise.cases(0)
    seen = [exercise.observe(r, 2, lambda rank, world_size: 2, {}) for r in range(2)]
    assert exercise.judge(case, seen) == "2 ranks"
    with pytest.raises(Wrong, match="rank 1 of 2 returned None, expected 2"):
        exercise.judge(case, [seen[0], {"returned": None}])


def test_a_file_that_is_not_there_is_told_with_those_that_are(
    solution, monkeypatch, capsys
):
    monkeypatch.chdir(solution.parents[1])
    assert draft.main(["4.11", "solutions/none.ipynb"]) == 1
    assert capsys.readouterr().err == (
        "there is no notebook solutions/none.ipynb;"
        f" there are solutions/{solution.name}\n"
    )


def test_a_folder_is_no_notebook(tmp_path, capsys):
    assert draft.main(["4.11", str(tmp_path)]) == 1
    assert f"{tmp_path} cannot be read or written" in capsys.readouterr().err
