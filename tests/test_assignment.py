"""Which exercise a notebook is a copy of, and which files are no notebooks."""

import json
import shutil
from pathlib import Path

import pytest

from course_lib.authoring import release
from course_lib.errors import UsageError
from course_lib.grading.notebook import assignment, cells
from course_lib.grading.notebook.assignment import Absent, Check, load_assignments
from course_lib.grading.notebook.cells import MOST, Refused

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def exercises():
    return load_assignments(ROOT / "exercises")


def handed(stage, folder="exercises"):
    path = next((ROOT / folder).glob(f"{stage}_*.ipynb"))
    return cells.parse(path.read_bytes())


def choose(notebook, exercises):
    return assignment.choose(cells.tidy(notebook), exercises)


def file(*cells, stage=""):
    metadata = {"course": {"stage": stage}} if stage else {}
    found = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return json.dumps(found)


def cell(source, name="", **grader):
    metadata = {"nbgrader": {"grade_id": name, **grader}} if name != "" else {}
    return {"cell_type": "code", "metadata": metadata, "source": source}


def answer(name, source="raise NotImplementedError"):
    return cell(source, name, solution=True)


def check(name, **changes):
    grader = {"grade": True, "solution": False, "locked": True, "points": 2} | changes
    return cell("assert x == 3", name, **grader)


# files


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_notebook_is_read_in_every_encoding_of_unicode(encoding):
    data = json.dumps({"cells": [], "title": "é"}, ensure_ascii=False)
    assert cells.parse(data.encode(encoding)) == {"cells": [], "title": "é"}


def test_a_byte_that_is_no_text_costs_no_more_than_itself():
    found = cells.parse(b'{"cells": [{"source": "a\xe9b"}]}')
    assert found["cells"] == [{"source": "a\ufffdb"}]


@pytest.mark.parametrize(
    "data, sentence",
    [
        (b" \n", "an empty file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "line 1 of the file is not JSON"),
        (b'{"cells": [', "line 1 .* Open it in JupyterLab, save it"),
        (b"[1]", "it holds a list"),
        (b"null", "it holds nothing"),
        (b"{}", "it has no list of cells"),
        (b'{"cells": {"0": 1}}', "it has no list of cells"),
        (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "an old format"),
        (b'{"nbformat": 2, "cells": []}', "an old format"),
        (b'{"nbformat": "x", "cells": []}', "nbformat is 'x', not 4"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b'{"cells": [' + b"9" * 10_000 + b"]}", "a number is too long"),
        (b'{"cells": [' + b"0," * MOST + b"0]}", "2,001 cells, at most 2,000"),
    ],
)
def test_what_is_no_notebook_is_refused_with_a_sentence(data, sentence):
    with pytest.raises(Refused, match=sentence):
        cells.parse(data)


# exercises


def test_the_checks_of_an_exercise_have_points_and_seconds(exercises):
    last = next(one for one in exercises if one.stage == "04")
    assert (last.name, last.stage) == ("04_distributed_data_parallel", "04")
    assert len(last.checks) == 16
    assert last.checks[4] == Check("check-4-5a", "4.5a", 1.0, 120.0, "✓ 4.5a right")
    assert last.content == (ROOT / "exercises" / f"{last.name}.ipynb").read_bytes()


def test_each_check_has_the_answer_of_its_exercise(exercises):
    for one in exercises:
        for own in one.checks:
            names = [answer.id for answer in own.answers]
            assert names == [own.cell.replace("check", "answer")]


def test_a_check_of_another_course_has_the_answers_above_it(tmp_path):
    cells = answer("a"), answer("b"), check("ab"), check("ab-2"), answer("c")
    (tmp_path / "x.ipynb").write_text(file(*cells, check("c-test")))
    (one,) = load_assignments(tmp_path)
    names = {c.cell: [a.id for a in c.answers] for c in one.checks}
    assert names == {"ab": ["a", "b"], "ab-2": ["a", "b"], "c-test": ["c"]}
    assert one.checks[0] == Check("ab", "ab", points=2.0, timeout=None)


def test_cells_get_ids_that_no_other_cell_has_or_gets(tmp_path):
    cells = [answer("my answer"), check("extra-1"), check("x" * 64), cell("1")]
    cells += [check("own"), {**cell("2"), "id": "own"}, {**cell("3"), "id": "cell-1"}]
    (tmp_path / "x.ipynb").write_text(file(*cells))
    (one,) = load_assignments(tmp_path)
    names = [own.id for own in one.cells]
    assert one.known["own"] == "own"  # a grade_id tells more than an id
    assert names == ["cell-1", "cell-2", "cell-3", "cell-4", "own", "cell-6", "cell-7"]


def test_a_folder_that_is_not_there_or_holds_no_exercise_is_named(tmp_path):
    with pytest.raises(UsageError, match="no folder .*nowhere: name the folder"):
        load_assignments(tmp_path / "nowhere")
    (tmp_path / "lesson.ipynb").write_text(file(cell("1")))
    (tmp_path / ".check.ipynb").write_text(file(check("a")))
    with pytest.raises(UsageError, match="none of its 1 notebooks holds a check"):
        load_assignments(tmp_path)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("{", "not JSON"),
        (file(check(None)), "a check has no grade_id"),
        (file(check("a"), answer("a")), "two cells have the grade_id a"),
        (file(check("a", points=None)), "a has None points"),
        (file(check("a", points=float("nan"))), "a has nan points"),
    ],
)
def test_an_exercise_that_cannot_be_read_stops_the_grader(tmp_path, text, sentence):
    (tmp_path / "x.ipynb").write_text(text)
    (tmp_path / "y.ipynb").write_text(file(check("b")))
    with pytest.raises(UsageError, match=f"x.ipynb: .*{sentence}.*Nothing is graded"):
        load_assignments(tmp_path)


def test_two_notebooks_with_the_same_checks_are_one_too_many(tmp_path):
    for name in ("04", "04-Copy1"):
        (tmp_path / f"{name}.ipynb").write_text(file(check("check-4-1"), stage="04"))
    with pytest.raises(UsageError, match="04-Copy1 and 04. Take out"):
        load_assignments(tmp_path)


def test_exercises_without_a_stage_may_use_the_same_ids(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.ipynb").write_text(file(check("test")))
    assert [one.name for one in load_assignments(tmp_path)] == ["a", "b"]


# the choice


@pytest.mark.parametrize("stage", ["01", "02", "03", "04", "05"])
def test_an_exercise_and_its_solution_are_known_by_what_is_in_them(exercises, stage):
    for folder in ("exercises", "solutions"):
        assert choose(handed(stage, folder), exercises).stage == stage


def bare(notebook, kept):
    """A notebook that lost all but its sources and what is kept."""
    notebook["metadata"] = {}
    for one in notebook["cells"]:
        if kept != "grader":
            one["metadata"] = {}
        if kept != "ids":
            one.pop("id")
    return notebook


@pytest.mark.parametrize("kept", ["grader", "ids", "sources"])
def test_one_trace_of_its_exercise_is_enough(exercises, kept):
    assert choose(bare(handed("03"), kept), exercises).stage == "03"


def test_a_wrong_stage_does_not_win_over_the_cells(exercises):
    mine = handed("03")
    mine["metadata"]["course"]["stage"] = "05"
    assert choose(mine, exercises).stage == "03"


@pytest.mark.parametrize("stage", ["00", "04"])
def test_a_lesson_is_refused(exercises, stage):
    with pytest.raises(Refused, match="not one of the exercises: .*Hand in"):
        choose(handed(stage, "notebooks"), exercises)


def test_an_empty_cell_makes_no_exercise_of_a_notebook(tmp_path):
    text = file(check("a"), cell("", "b", locked=True))
    (tmp_path / "x.ipynb").write_text(text)
    with pytest.raises(Refused):
        choose(cells.parse(file(cell("")).encode()), load_assignments(tmp_path))


def test_an_exercise_that_the_folder_lacks_is_no_fault_of_the_learner(exercises):
    others = [one for one in exercises if one.stage != "05"]
    with pytest.raises(Absent, match="'answer-5-1', which none of these .* has: 00"):
        choose(handed("05"), others)


def test_a_stage_that_the_folder_lacks_is_not_taken_for_another(exercises):
    mine = handed("05")
    mine["cells"] += handed("04")["cells"][-1:]
    locked = next(c for c in handed("04")["cells"] if c["id"] == "check-4-1")
    mine["cells"].append({**locked, "metadata": {}})
    others = [one for one in exercises if one.stage != "05"]
    with pytest.raises(Absent):
        choose(mine, others)


def test_ids_of_another_course_decide_without_a_stage(tmp_path):
    for name in ("sum", "product"):
        both = answer(name), check(f"{name}-test")
        (tmp_path / f"{name}.ipynb").write_text(file(*both))
    mine = cells.parse(file(answer("sum", "x = 3")).encode())
    assert choose(mine, load_assignments(tmp_path)).name == "sum"


@pytest.fixture
def clone(tmp_path):
    """A clone with the exercise and the solution of stage 04, and a file for each."""
    files = {}
    for name in ("exercises", "solutions"):
        [source] = (ROOT / name).glob("04_*.ipynb")
        (tmp_path / name).mkdir()
        files[name] = Path(shutil.copy(source, tmp_path / name))
    return files


def as_released(clone):
    [made] = load_assignments(clone["exercises"].parent)
    return made.content == release.exercise_file(clone["solutions"])


def test_an_exercise_into_which_somebody_wrote_is_taken_from_its_solution(clone):
    text = clone["exercises"].read_text()
    clone["exercises"].write_text(text.replace("raise NotImplementedError", "return 1"))
    assert as_released(clone)


@pytest.mark.parametrize("data", [None, b"", b"{}", b'{"cells": [3]}'])
def test_an_exercise_that_is_gone_or_damaged_is_taken_from_its_solution(clone, data):
    clone["exercises"].unlink()
    if data is not None:
        clone["exercises"].write_bytes(data)
    assert as_released(clone)


def test_an_exercise_that_was_only_run_is_taken_as_it_is(clone):
    notebook = json.loads(clone["exercises"].read_text())
    notebook["cells"][2]["execution_count"] = 7
    clone["exercises"].write_text(json.dumps(notebook))
    [made] = load_assignments(clone["exercises"].parent)
    assert made.content == clone["exercises"].read_bytes()


def test_a_learners_copy_beside_the_exercises_is_none_of_them(clone):
    shutil.copy(clone["exercises"], clone["exercises"].with_name("04-Copy1.ipynb"))
    assert as_released(clone)
