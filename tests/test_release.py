"""Exercises from solutions: what is left out, what stays, what is never lost."""

import copy
import difflib
import json
from pathlib import Path

import nbformat
import pytest

from course_lib.authoring import lint, release
from course_lib.workspace import atomic

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
ADD = f"def add(a, b):\n    {BEGIN}\n    # a comment\n\n    return a + b\n    {END}"
STUB = (
    "def add(a, b):\n    # 4.1: your code, about 1 line\n    raise NotImplementedError"
)


def graded(name, source, **changes):
    """An answer or check cell as the rules want it, but for the changes."""
    check = name.startswith("check")
    grader = {"schema_version": 3, "grade_id": name, "task": False}
    grader |= {"grade": check, "solution": not check, "locked": check}
    metadata = {"nbgrader": grader}
    if check:
        grader["points"] = 2
        metadata |= {"course": {"timeout": 60, "minutes": 5}}
        metadata |= {"deletable": False, "editable": False}
    metadata["nbgrader"] |= changes.pop("nbgrader", {})
    return cell(name, source, **(metadata | changes))


def cell(name, source, **metadata):
    made = nbformat.v4.new_code_cell(source, metadata=metadata, execution_count=7)
    made.outputs = [nbformat.v4.new_output("stream", text="out\n")]
    made["id"] = name
    return made


def text(name, source, **metadata):
    made = nbformat.v4.new_markdown_cell(source, metadata=metadata)
    made["id"] = name
    return made


def notebook(*cells, **metadata):
    course = {"course": {"stage": "04", "seconds": 60}, "course_code": "0123"}
    return nbformat.v4.new_notebook(cells=list(cells), metadata=course | metadata)


def usual(answer=ADD):
    return notebook(
        text("title", "# Adding"),
        graded("answer-4-1", answer),
        graded("check-4-1", "cl.check('4.1', add)"),
        text("why", "Because.", tags=["solution-only"]),
        text("end", "Done."),
    )


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A course with one solution, as the current folder."""
    monkeypatch.chdir(tmp_path)
    put(usual())
    return tmp_path


def put(made, path="solutions/04.ipynb"):
    folder, _, _ = path.rpartition("/")
    Path(folder).mkdir(exist_ok=True)
    nbformat.write(made, path)


def exercise(path="exercises/04.ipynb"):
    return nbformat.read(path, as_version=4)


def stub(*lines):
    """The lines of an answer to exercise 4.1 after its release."""
    return release.stub(graded("answer-4-1", "\n".join(lines))).split("\n")


def wrong(made):
    """The one problem of a notebook."""
    (found,) = lint.problems(made)
    return found


def answer(change):
    """The usual solution with its answer changed by a function."""
    made = usual()
    change(made.cells[1])
    return wrong(made)


def check(change):
    made = usual()
    change(made.cells[2])
    return wrong(made)


# what becomes of an answer


def test_a_region_becomes_its_length_and_an_error_of_not_implemented():
    assert stub(*ADD.split("\n")) == STUB.split("\n")


def test_the_length_of_an_answer_counts_neither_comments_nor_blank_lines():
    lines = stub(BEGIN, "# why", "", "a = 1", "b = 2  # this counts", "    ", END)
    assert lines[0] == "# 4.1: your code, about 2 lines"


def test_every_region_of_a_cell_becomes_a_stub_at_its_own_indentation():
    lines = stub("if x:", f"    {BEGIN}", "    a", f"    {END}", BEGIN, "b", "c", END)
    assert lines == [
        "if x:",
        "    # 4.1: your code, about 1 line",
        "    raise NotImplementedError",
        "# 4.1: your code, about 2 lines",
        "raise NotImplementedError",
    ]


def test_code_around_a_region_stays():
    lines = stub("def f():", f"  {BEGIN}", "  y = 1", f"  {END}", "  return y", "", "")
    assert lines[0] == "def f():"
    assert lines[3:] == ["  return y", "", ""]


@pytest.mark.parametrize(
    "name, id",
    [("answer-4-1", "4.1"), ("answer-4-5a", "4.5a"), ("answer-10-2-model", "10.2")],
)
def test_the_stub_carries_the_id_of_its_exercise(name, id):
    made = release.stub(graded(name, f"{BEGIN}\n1\n{END}"))
    assert made.startswith(f"# {id}: your code")


def test_an_exercise_has_no_outputs_no_counts_and_no_cell_for_solutions_only(root):
    assert release.main([]) == 0
    made = exercise()
    assert [c.id for c in made.cells] == ["title", "answer-4-1", "check-4-1", "end"]
    code = [c for c in made.cells if c.cell_type == "code"]
    assert all(c.outputs == [] and c.execution_count is None for c in code)


def test_the_metadata_of_cells_stays_but_for_times_of_execution(root):
    solution = usual()
    kept = copy.deepcopy(solution.cells[2].metadata)
    solution.cells[2].metadata["execution"] = {"iopub.status.busy": "now"}
    assert release.release(solution).cells[2].metadata == kept


def test_the_metadata_of_an_exercise_tells_its_release_and_not_the_outputs_code(root):
    made = release.release(usual())
    assert "course_code" not in made.metadata
    course = dict(made.metadata.course)
    assert len(course.pop("released")) == 16
    assert course == {"stage": "04", "seconds": 60}


def test_the_solution_itself_stays_as_it_is():
    solution = usual()
    before = copy.deepcopy(solution)
    release.release(solution)
    assert solution == before


# the file


def test_a_second_release_gives_the_same_bytes(root):
    release.main([])
    once = (root / "exercises/04.ipynb").read_bytes()
    (root / "exercises/04.ipynb").unlink()
    release.main([])
    assert (root / "exercises/04.ipynb").read_bytes() == once


def test_the_file_is_laid_out_as_nbformat_writes_it(root):
    release.main([])
    written = (root / "exercises/04.ipynb").read_bytes()
    put(exercise(), "exercises/04.ipynb")
    assert (root / "exercises/04.ipynb").read_bytes() == written
    assert written.endswith(b"}\n")


def test_two_changed_lines_in_a_solution_change_them_and_the_fingerprint_alone(root):
    release.main([])
    before = (root / "exercises/04.ipynb").read_text().split("\n")
    changed = usual()
    changed.cells[0].source, changed.cells[4].source = "# Adding up", "All done."
    put(changed)
    release.main([])
    after = (root / "exercises/04.ipynb").read_text().split("\n")
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    new = [line.strip('+ ,"') for line in lines if line[0] == "+"]
    assert new[:2] == ["# Adding up", "All done."]
    assert [line.split('"')[0] for line in new[2:]] == ["released"]
    assert [line[0] for line in lines if line[0] != "@"] == ["-", "+"] * 3


def test_nothing_is_left_beside_the_exercise(root):
    release.main([])
    assert [path.name for path in (root / "exercises").iterdir()] == ["04.ipynb"]


def test_a_failed_write_leaves_the_old_exercise_whole(root, monkeypatch, capsys):
    release.main([])
    before = (root / "exercises/04.ipynb").read_bytes()
    put(usual(ADD.replace("a + b", "b + a").replace("add", "plus")))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "replace", full)
    assert release.main([]) == 1
    assert "No space left" in capsys.readouterr().err
    assert (root / "exercises/04.ipynb").read_bytes() == before
    assert len(list((root / "exercises").iterdir())) == 1


def test_only_the_named_notebooks_are_released(root):
    put(usual(), "solutions/05.ipynb")
    assert release.main(["solutions/05.ipynb"]) == 0
    assert [path.name for path in (root / "exercises").iterdir()] == ["05.ipynb"]


def test_a_wrong_notebook_does_not_keep_the_others_from_their_release(root, capsys):
    put(usual(BEGIN), "solutions/03.ipynb")
    assert release.main([]) == 1
    assert "solutions/03.ipynb, cell answer-4-1: line 1" in capsys.readouterr().err
    assert [path.name for path in (root / "exercises").iterdir()] == ["04.ipynb"]


def test_a_notebook_from_another_folder_is_refused(root, capsys):
    release.main([])
    assert release.main(["exercises/04.ipynb"]) == 1
    assert "made from notebooks in solutions/" in capsys.readouterr().err


def test_a_folder_without_solutions_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert release.main([]) == 1
    error = capsys.readouterr().err
    assert f"no notebook in {tmp_path}/solutions" in error
    assert "root folder" in error


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"nbformat": 9}'])
def test_a_solution_that_is_no_notebook_is_named(root, capsys, content):
    (root / "solutions/04.ipynb").write_text(content)
    assert release.main([]) == 1
    assert capsys.readouterr().err.startswith("solutions/04.ipynb")
    assert not (root / "exercises").exists()


# what a learner wrote


def answered(root, change):
    """The exercise file after a learner and then a new release; its bytes before."""
    release.main([])
    written = exercise()
    change(written)
    put(written, "exercises/04.ipynb")
    put(usual(ADD.replace("add", "plus")))
    return (root / "exercises/04.ipynb").read_bytes()


def write_answer(written):
    written.cells[1].source = "def add(a, b):\n    return a + b"


def split_answer(written):
    first, second = copy.deepcopy(written.cells[1]), written.cells[1]
    first["id"], first.source = "new", "import math"
    written.cells[1:2] = [first, second]


def delete_answer(written):
    del written.cells[1]


def add_cell(written):
    written.cells.append(nbformat.v4.new_code_cell("my own trial"))


def add_cell_in_lab(written):
    written.cells.append(cell("0f6a3c1e-93d5-4f0b-8f0e-2b7c1d9a4e55", "my note"))


def add_cell_with_a_short_id(written):
    written.cells.append(cell("a1", "my note"))


def mend_outside_the_answer(written):
    written.cells[2].source = written.cells[2].source.replace("4.1", "4.2")


def add_code_to_the_check(written):
    written.cells[2].source += "\nadd(1, 2)"


def write_notes_in_a_text(written):
    written.cells[0].source += "\n\nMy notes."


def move_a_cell(written):
    written.cells.insert(0, written.cells.pop())


def make_a_text_of_a_cell(written):
    made = text(written.cells[2].id, written.cells[2].source)
    written.cells[2] = made


def forget_fingerprint(written):
    del written.metadata["course"]


@pytest.mark.parametrize(
    "change",
    [write_answer, split_answer, delete_answer, forget_fingerprint]
    + [add_cell, add_cell_in_lab, add_cell_with_a_short_id, move_a_cell]
    + [mend_outside_the_answer, add_code_to_the_check, write_notes_in_a_text]
    + [make_a_text_of_a_cell],
)
def test_an_exercise_that_somebody_wrote_into_is_kept(root, capsys, change):
    before = answered(root, change)
    assert release.main([]) == 1
    message = "04.ipynb was changed since its release: kept. --force overwrites it."
    assert message in capsys.readouterr().err
    assert (root / "exercises/04.ipynb").read_bytes() == before


def test_force_overwrites_answers(root):
    answered(root, write_answer)
    assert release.main(["--force"]) == 0
    assert "def plus" in exercise().cells[1].source


def run_only(written):
    for one in written.cells:
        if one.cell_type == "code":
            one.execution_count = 3


def test_an_exercise_that_was_run_but_not_answered_is_replaced(root):
    answered(root, run_only)
    assert release.main([]) == 0
    assert "def plus" in exercise().cells[1].source


@pytest.mark.parametrize(
    "content", [b"", b"<<<<<<< mine", b"\xff\xfe", b"[]", b"{}", b'{"cells": 1}']
)
def test_an_exercise_that_cannot_be_read_is_kept(root, capsys, content):
    release.main([])
    (root / "exercises/04.ipynb").write_bytes(content)
    assert release.main([]) == 1
    assert "kept. --force overwrites it." in capsys.readouterr().err
    assert (root / "exercises/04.ipynb").read_bytes() == content
    assert release.main(["--force"]) == 0


# --check


def test_check_agrees_with_what_was_just_released(root, capsys):
    release.main([])
    assert release.main(["--check"]) == 0
    assert "as it should be" in capsys.readouterr().out


def test_check_names_a_missing_exercise_and_writes_nothing(root, capsys):
    assert release.main(["--check"]) == 1
    error = capsys.readouterr().err
    assert "exercises/04.ipynb is missing" in error
    assert "python -m course_lib release solutions/04.ipynb" in error
    assert not (root / "exercises").exists()


def test_check_sees_a_single_byte(root, capsys):
    release.main([])
    with open("exercises/04.ipynb", "a") as file:
        file.write("\n")
    assert release.main(["--check"]) == 1
    assert "release solutions/04.ipynb" in capsys.readouterr().err


def test_check_warns_that_answers_would_be_lost(root, capsys):
    answered(root, write_answer)
    assert release.main(["--check"]) == 1
    error = capsys.readouterr().err
    assert "release --force solutions/04.ipynb" in error
    assert "is lost" in error


def test_check_names_an_exercise_without_a_solution(root, capsys):
    release.main([])
    put(exercise(), "exercises/05.ipynb")
    assert release.main(["--check"]) == 1
    assert "exercises/05.ipynb has no solution" in capsys.readouterr().err


def test_check_of_named_notebooks_leaves_the_others_alone(root):
    release.main([])
    put(exercise(), "exercises/05.ipynb")
    assert release.main(["--check", "solutions/04.ipynb"]) == 0


# the rules for solutions


def test_a_notebook_as_the_rules_want_it_has_no_problem():
    assert lint.problems(usual()) == []


@pytest.mark.parametrize(
    "lines, message",
    [
        ([BEGIN, "1"], "line 1: no ### END SOLUTION"),
        (["1", END], "line 2: ### END SOLUTION with no ### BEGIN"),
        ([BEGIN, "1", BEGIN, "2", END, END], "line 3: ### BEGIN SOLUTION inside"),
        ([BEGIN, "# words", END], "line 1: a solution region without code"),
        ([BEGIN, "1", END, "# begin solution", "2"], "line 4: found '# begin solu"),
        (["x = 1  ### BEGIN SOLUTION", END], "line 1: found 'x = 1"),
        (["1"], "an answer without ### BEGIN SOLUTION"),
    ],
)
def test_markers_that_do_not_pair_are_named_with_their_line(lines, message):
    assert wrong(usual("\n".join(lines))).startswith(f"cell answer-4-1: {message}")


def test_a_region_outside_an_answer_is_refused():
    made = usual()
    made.cells.insert(1, cell("demo", f"1\n{BEGIN}\n2\n{END}"))
    assert wrong(made) == "cell demo: line 2: a solution region outside an answer cell"


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize(
    "line", [BEGIN, END, f"  {BEGIN} ", "# begin  solution", f"`{END}`"]
)
def test_a_marker_in_a_text_is_refused_since_it_would_be_released(kind, line):
    made = usual()
    made.cells[0].source = f"Adding\n{line}"
    made.cells[0].cell_type = kind
    assert wrong(made) == (
        f"cell title: line 2: found {line.strip()!r} in a {kind} cell;"
        " a solution region is in a code cell"
    )


def test_a_text_may_speak_of_a_solution():
    made = usual()
    made.cells[0].source = "# At the end: solution and hints\nBegin. Solution below."
    assert lint.problems(made) == []


@pytest.mark.parametrize(
    "key, value",
    [("schema_version", 2), ("grade_id", "answer-4-2")]
    + [("solution", False), ("locked", True), ("task", True)],
)
def test_the_nbgrader_metadata_of_an_answer_is_checked(key, value):
    found = answer(lambda cell: cell.metadata.nbgrader.update({key: value}))
    assert found.startswith(f"cell answer-4-1: nbgrader.{key} is {value}")


def test_other_keys_than_those_of_nbgrader_are_refused():
    found = answer(lambda cell: cell.metadata.nbgrader.update(points=1))
    assert found.endswith("not so here: points")


def test_a_missing_key_of_nbgrader_is_named():
    found = answer(lambda cell: cell.metadata.nbgrader.pop("task"))
    assert found.endswith("not so here: task")


def test_an_answer_has_no_tags():
    found = answer(lambda cell: cell.metadata.update(tags=["hide-input"]))
    assert found == "cell answer-4-1: an answer has no tags, found hide-input"


def test_an_answer_without_metadata_is_found_by_its_name():
    found = answer(lambda cell: cell.metadata.pop("nbgrader"))
    assert found.endswith("is named as answer but has no nbgrader metadata")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"deletable": True}, "deletable: false"),
        ({"editable": True}, "editable: false"),
        ({"course": {"minutes": 5}}, "course.timeout"),
        ({"course": {"timeout": 60}}, "course.minutes"),
        ({"course": {"timeout": 60, "minutes": 0}}, "course.minutes"),
        ({"tags": ["solution-only"]}, "cannot be solution-only"),
    ],
)
def test_the_metadata_of_a_check_is_checked(change, message):
    found = check(lambda cell: cell.metadata.update(change))
    assert found.startswith("cell check-4-1:")
    assert message in found


@pytest.mark.parametrize("points", [-1, True, "2"])
def test_a_check_has_points(points):
    found = check(lambda cell: cell.metadata.nbgrader.update(points=points))
    assert found == "cell check-4-1: a check has points, 0 or more"


def test_a_check_is_locked():
    found = check(lambda cell: cell.metadata.nbgrader.update(locked=False))
    assert "nbgrader.locked is False, in a cell named check-… it is True" in found


def test_a_graded_cell_is_named_as_a_check():
    made = usual()
    made.cells.insert(3, graded("check-it", "1"))
    assert all("not named as check-4-1" in text for text in lint.problems(made))
    assert lint.problems(made)


@pytest.mark.parametrize("tag", ["raises-exception", "nbval-skip"])
def test_no_cell_may_hide_its_failure(tag):
    made = usual()
    made.cells.append(cell("broken", "1 / 0", tags=[tag]))
    assert wrong(made).startswith(f"cell broken: has the tag {tag}")


def test_no_comment_may_keep_a_cell_from_being_tested():
    made = usual()
    made.cells.append(cell("broken", "# NBVAL_SKIP\n1 / 0"))
    assert wrong(made).startswith("cell broken: has an NBVAL comment")


def test_a_cell_may_have_its_output_compared():
    made = usual()
    made.cells.append(cell("sum", "1 + 1", tags=["nbval-check-output"]))
    assert lint.problems(made) == []


def test_an_answer_comes_before_its_check():
    made = usual()
    made.cells[1:3] = made.cells[2:0:-1]
    assert wrong(made) == "cell check-4-1: answer-4-1 comes after its check"


def test_a_check_has_an_answer():
    made = usual()
    del made.cells[1]
    assert wrong(made) == "cell check-4-1: exercise 4.1 has no answer cell"


def test_an_exercise_may_have_two_answers():
    made = usual()
    made.cells.insert(2, graded("answer-4-1-more", ADD))
    assert lint.problems(made) == []


def test_two_cells_do_not_share_an_id():
    made = usual()
    made.cells.append(text("title", "again"))
    assert wrong(made) == "cell title: another cell has this id too"


def test_a_cell_without_an_id_is_counted():
    made = usual()
    del made.cells[3]["id"]
    assert wrong(made) == "cell number 4: has no id"


def test_an_older_format_is_refused():
    made = usual()
    made.nbformat_minor = 4
    assert "cells have ids from 4.5 on" in wrong(made)


def test_an_invalid_notebook_is_named_with_its_cell(root, capsys):
    made = json.loads((root / "solutions/04.ipynb").read_text())
    made["cells"][1]["outputs"] = [{"output_type": "smell"}]
    (root / "solutions/04.ipynb").write_text(json.dumps(made))
    assert release.main([]) == 1
    message = "solutions/04.ipynb, cell answer-4-1: not a valid notebook"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("key", ["stage", "seconds"])
def test_a_solution_tells_its_stage_and_how_long_it_may_take(key):
    made = usual()
    del made.metadata.course[key]
    assert wrong(made).startswith(f"metadata: course.{key} is missing")
