"""What was handed in, put into the exercise: nothing of the learner's work is lost."""

import copy
import json
import random
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import find_comment_markers

from course_lib.grading.notebook import cells, merging
from course_lib.grading.notebook.assignment import load_assignments
from course_lib.grading.notebook.canaries import canaries
from course_lib.grading.notebook.cells import defined

ROOT = Path(__file__).parents[1]
NAME = "04_distributed_data_parallel"
ANSWER = "def shard_indices(num_samples, rank, world_size):\n    return [rank]"


@pytest.fixture(scope="module")
def assignment():
    return next(one for one in load_assignments(ROOT / "exercises") if one.name == NAME)


def handed(folder="exercises"):
    """What a learner of stage 04 has, to be changed by a test."""
    return cells.parse((ROOT / folder / f"{NAME}.ipynb").read_bytes())


def merge_answers(notebook, assignment):
    return merging.merge_answers(cells.tidy(notebook), assignment)


def at(notebook, name):
    return next(n for n, c in enumerate(notebook["cells"]) if c.get("id") == name)


def cell(notebook, name):
    return notebook["cells"][at(notebook, name)]


def write(notebook, name, source):
    cell(notebook, name)["source"] = source


def remove(notebook, name):
    return notebook["cells"].pop(at(notebook, name))


def put(notebook, after, source, **changes):
    """A new cell below the cell `after`."""
    new = {"cell_type": "code", "id": "new", "metadata": {}, "source": source}
    new |= {"outputs": [], "execution_count": 7}
    notebook["cells"].insert(at(notebook, after) + 1, new | changes)


def forget(cell):
    """A cell as a tool leaves it that keeps neither ids nor metadata."""
    cell.pop("id", None)
    cell["metadata"] = {}


def ids(merged):
    return [cell.id for cell in merged.cells]


def source(merged, name):
    return next(c.source for c in merged.cells if c.id == name)


def small(*cells):
    """An exercise of another course, with asserts in its checks, and what merges."""
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [*cells]}


def code(source, name="", **grader):
    made = {"cell_type": "code", "metadata": {}, "source": source}
    if name:
        grader = {"grade_id": name, "schema_version": 3, **grader}
        made["metadata"]["nbgrader"] = grader
    return made | {"outputs": [], "execution_count": None}


def answer(source, name):
    return code(source, name, solution=True, grade=False, locked=False)


def check(source, name):
    return code(source, name, grade=True, solution=False, locked=True, points=1)


def taken(folder, *cells):
    """The assignment that a folder with this one notebook gives."""
    (folder / "sums.ipynb").write_text(json.dumps(small(*cells)))
    return load_assignments(folder)[0]


# what needs no repair


def test_an_exercise_as_shipped_merges_to_itself(assignment):
    merged = merge_answers(handed(), assignment)
    assert merged.cells == list(assignment.cells)
    assert (merged.repairs, merged.learners) == ([], set())


def test_a_solution_merges_without_its_solution_only_cells(assignment):
    merged = merge_answers(handed("solutions"), assignment)
    assert ids(merged) == [own.id for own in assignment.cells]
    assert merged.repairs == []
    assert merged.learners == {
        own.id for own in assignment.cells if own.role == "answer"
    }


def test_a_notebook_that_was_only_run_needs_no_repair(assignment):
    ran = handed()
    ran["metadata"] = {"kernelspec": {"name": "py"}, "widgets": {"state": [1]}}
    for number, one in enumerate(ran["cells"]):
        one["metadata"]["execution"] = {"iopub.status.busy": "now"}
        if one["cell_type"] == "code":
            one |= {"execution_count": number, "outputs": [{"output_type": "?"}]}
    merged = merge_answers(ran, assignment)
    assert (merged.cells, merged.repairs) == (list(assignment.cells), [])


def test_the_learners_text_is_dropped_without_a_word(assignment):
    mine = handed()
    write(mine, "text-4-1", "My notes.")
    put(mine, "text-4-1", "More of them.", cell_type="markdown")
    merged = merge_answers(mine, assignment)
    assert (merged.cells, merged.repairs) == (list(assignment.cells), [])


# answers


def test_an_answer_is_found_by_its_grade_id(assignment):
    mine = handed()
    write(mine, "answer-4-1", ANSWER)
    cell(mine, "answer-4-1")["id"] = "0a1b2c3d"
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == ANSWER
    assert (merged.repairs, merged.learners) == ([], {"answer-4-1"})


def test_an_answer_without_metadata_is_found_by_the_id_of_its_cell(assignment):
    mine = handed()
    write(mine, "answer-4-1", ANSWER)
    cell(mine, "answer-4-1")["metadata"] = {}
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == ANSWER
    assert merged.repairs == []


def test_an_answer_without_id_and_metadata_is_found_by_the_name_it_defines(assignment):
    mine = handed()
    write(mine, "answer-4-1", f"import math\n\n{ANSWER}")
    forget(cell(mine, "answer-4-1"))
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1").endswith(ANSWER)
    assert merged.repairs == [
        "answer-4-1 had lost its id: found by the name that it defines"
    ]


def test_an_answer_that_was_split_is_one_cell_again(assignment):
    mine = handed()
    write(mine, "answer-4-1", "import math")
    new = {"metadata": cell(mine, "answer-4-1")["metadata"]}
    put(mine, "answer-4-1", ANSWER, **new)
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == f"import math\n\n{ANSWER}"
    assert merged.repairs == ["answer-4-1 was in 2 cells: joined"]


@pytest.mark.parametrize("keeps", [True, False])
def test_an_answer_that_was_split_inside_its_function_is_joined(assignment, keeps):
    mine = handed()
    head, body = ANSWER.split("\n")
    write(mine, "answer-4-1", head)
    metadata = cell(mine, "answer-4-1")["metadata"] if keeps else {}
    put(mine, "answer-4-1", body, metadata=metadata)
    assert source(merge_answers(mine, assignment), "answer-4-1") == ANSWER


OLD = "def shard_indices(num_samples, rank, world_size):\n    return ["


def attempts(*, above=(), below=()):
    """What is merged of an answer with older attempts around it."""
    mine = handed()
    metadata = cell(mine, "answer-4-1")["metadata"]
    write(mine, "answer-4-1", ANSWER)
    for number, source in enumerate(above):
        old = {**copy.deepcopy(cell(mine, "answer-4-1")), "id": f"above-{number}"}
        mine["cells"].insert(at(mine, "answer-4-1"), old | {"source": source})
    for source in below:
        put(mine, "check-4-1", source, metadata=metadata)
    return mine


def test_an_older_attempt_above_runs_in_a_cell_of_its_own(assignment):
    merged = merge_answers(attempts(above=[f"%%time\n{OLD}"]), assignment)
    assert source(merged, "answer-4-1") == ANSWER
    assert source(merged, "own-answer-4-1-1") == f"%%time\n{OLD}"
    assert ids(merged).index("own-answer-4-1-1") < ids(merged).index("answer-4-1")
    assert merged.repairs == ["answer-4-1 was there 2 times: the last of them counts"]


def test_an_older_attempt_below_the_check_does_not_count(assignment):
    merged = merge_answers(attempts(below=[f"{OLD}0]"]), assignment)
    assert source(merged, "answer-4-1") == ANSWER
    assert f"{OLD}0]" not in [one.source for one in merged.cells]
    assert merged.repairs == [
        "answer-4-1 was there 2 times: the last above its check counts"
    ]


def test_a_copy_below_the_check_is_late_even_if_it_equals_one_above(assignment):
    older = f"{OLD}0]"
    mine = attempts(above=[older], below=[older])
    for one in mine["cells"]:
        one.pop("id")  # as before nbformat 4.5
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == ANSWER
    assert [one.source for one in merged.cells].count(older) == 1


def test_of_attempts_that_all_stand_below_the_check_the_last_counts(assignment):
    mine = attempts(below=[ANSWER, f"{OLD}0]"])
    remove(mine, "answer-4-1")
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == ANSWER  # the last put is the first below
    assert source(merged, "own-answer-4-1-1") == f"{OLD}0]"


def test_a_helper_between_two_attempts_runs_where_it_stood(assignment):
    merged = merge_answers(attempts(above=[OLD, "def pad(): pass"]), assignment)
    assert source(merged, "own-answer-4-1-2") == "def pad(): pass"


def test_an_answer_that_was_merged_into_the_check_above_is_found(assignment):
    mine = handed("solutions")
    answer = "".join(remove(mine, "answer-4-2")["source"])
    check = "".join(cell(mine, "check-4-1")["source"])
    write(mine, "check-4-1", f"{check}\n\n{answer}\n\ncl.check('4.1', print)")
    merged = merge_answers(mine, assignment)
    first = next(line for line in answer.split("\n") if line.startswith("def "))
    assert source(merged, "answer-4-2").startswith(first)
    assert "cl.check" not in source(merged, "answer-4-2")
    assert merged.repairs == [
        "check-4-1 was changed: the original ran",
        "answer-4-2 was missing: found in check-4-1",
    ]


def test_a_copy_of_the_stub_does_not_undo_the_answer(assignment):
    mine = handed()
    copied = copy.deepcopy(cell(mine, "answer-4-1"))
    write(mine, "answer-4-1", ANSWER)
    mine["cells"].insert(at(mine, "check-4-1"), {**copied, "id": "new"})
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == ANSWER
    assert merged.repairs == []


def test_a_second_copy_of_an_answer_is_no_second_answer(assignment):
    mine = handed("solutions")
    copied = copy.deepcopy(cell(mine, "answer-4-1"))
    mine["cells"].append({**copied, "id": "new"})
    merged = merge_answers(mine, assignment)
    assert merged.cells == merge_answers(handed("solutions"), assignment).cells
    assert merged.repairs == []


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_an_answer_that_is_not_there_is_the_stub(assignment, how):
    mine = handed("solutions")
    if how == "missing":
        remove(mine, "answer-4-1")
    else:
        write(mine, "answer-4-1", " \n")
    merged = merge_answers(mine, assignment)
    assert "raise NotImplementedError" in source(merged, "answer-4-1")
    assert merged.repairs == [f"answer-4-1 was {how}: its stub ran"]
    assert "answer-4-1" not in merged.learners


def test_a_stub_does_not_undo_an_answer_in_another_cell(assignment):
    mine = handed("solutions")
    both = "\n\n".join(
        "".join(cell(mine, name)["source"]) for name in ("answer-4-1", "answer-4-2")
    )
    write(mine, "answer-4-1", both)
    remove(mine, "answer-4-2")
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-2").startswith("#")
    assert merged.repairs == ["answer-4-2 was missing: found in answer-4-1"]


@pytest.mark.parametrize("kind", ["markdown", "raw", "heading", None])
def test_an_answer_that_became_text_is_code_again(assignment, kind):
    mine = handed()
    write(mine, "answer-4-1", ANSWER)
    cell(mine, "answer-4-1")["cell_type"] = kind
    merged = merge_answers(mine, assignment)
    assert next(c for c in merged.cells if c.id == "answer-4-1").is_code
    assert source(merged, "answer-4-1") == ANSWER
    assert merged.repairs == ["answer-4-1 was turned into text: it is code again"]


def test_notes_split_off_from_an_answer_do_not_become_code(assignment):
    mine = handed()
    write(mine, "answer-4-1", ANSWER)
    metadata = cell(mine, "answer-4-1")["metadata"]
    put(mine, "answer-4-1", "Why it is so.", cell_type="markdown", metadata=metadata)
    assert source(merge_answers(mine, assignment), "answer-4-1") == ANSWER


# checks


def changed(mine):
    write(mine, "check-4-1", "pass")


def missing(mine):
    remove(mine, "check-4-1")


def turned(mine):
    cell(mine, "check-4-1")["cell_type"] = "markdown"


def twice(mine):
    put(mine, "check-4-1", cell(mine, "check-4-1")["source"])


def moved(mine):
    mine["cells"].append(remove(mine, "check-4-1"))


@pytest.mark.parametrize(
    "spoil, note",
    [
        (changed, "check-4-1 was changed: the original ran"),
        (missing, "check-4-1 was missing: the original ran"),
        (turned, "check-4-1 was turned into text: the original ran"),
        (twice, "check-4-1 was there 2 times: the original ran once"),
        (moved, "check-4-1 was moved: put back in its place"),
    ],
)
def test_a_check_is_the_original_whatever_became_of_it(assignment, spoil, note):
    mine = handed()
    spoil(mine)
    merged = merge_answers(mine, assignment)
    assert merged.cells == list(assignment.cells)
    assert merged.repairs == [note]


def test_answers_in_another_order_are_put_back(assignment):
    mine = handed("solutions")
    mine["cells"].append(remove(mine, "answer-4-2"))
    mine["cells"].insert(0, remove(mine, "answer-4-5c"))
    merged = merge_answers(mine, assignment)
    assert merged.cells == merge_answers(handed("solutions"), assignment).cells
    assert merged.repairs == [
        "answer-4-2 was moved: put back in its place",
        "answer-4-5c was moved: put back in its place",
    ]


# given cells and the learner's own


def test_answers_in_one_cell_without_an_id_serve_their_checks(assignment):
    mine = handed("solutions")
    later, first = remove(mine, "answer-4-2"), remove(mine, "answer-4-1")
    put(mine, "check-4-1", "\n".join([*later["source"], "", *first["source"]]))
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1").startswith("def train(")
    assert "answer-4-2 was missing: found in answer-4-1" in merged.repairs


def test_a_changed_set_up_runs_after_the_original(assignment):
    mine = handed()
    write(mine, "setup", "import math")
    merged = merge_answers(mine, assignment)
    here = ids(merged).index("setup")
    assert merged.cells[here] == assignment.cells[here]
    assert ids(merged)[here + 1] == "own-setup"
    assert source(merged, "own-setup") == "import math"
    assert merged.repairs == ["setup was changed: the original ran, then yours"]
    assert merged.learners == {"own-setup"}


@pytest.mark.parametrize("spoil", [remove, lambda mine, name: write(mine, name, "")])
def test_a_set_up_that_was_taken_out_is_the_original_alone(assignment, spoil):
    mine = handed()
    spoil(mine, "setup")
    merged = merge_answers(mine, assignment)
    assert merged.cells == list(assignment.cells)
    assert merged.repairs == ["setup was missing: the original ran"]


def test_a_set_up_that_lost_its_id_and_was_changed_runs_after_the_original(assignment):
    mine = handed()
    text = "".join(cell(mine, "setup")["source"])
    write(mine, "setup", f"{text}\nimport math")
    forget(cell(mine, "setup"))
    assert ids(merge_answers(mine, assignment))[2:4] == ["setup", "extra-1"]


def test_cells_without_ids_and_metadata_are_known_by_their_source(assignment):
    mine = handed()
    for one in mine["cells"]:
        forget(one)
    merged = merge_answers(mine, assignment)
    assert (merged.cells, merged.repairs) == (list(assignment.cells), [])


def test_an_extra_cell_stays_below_its_cell_even_if_that_was_moved(assignment):
    mine = handed()
    put(mine, "setup", "b = a", id="second")
    put(mine, "setup", "a = 1", id="first")
    put(mine, "check-4-1", "c = 1")
    mine["cells"] += [remove(mine, "check-4-1"), remove(mine, "new")]
    merged = merge_answers(mine, assignment)
    names = ids(merged)
    here, there = names.index("setup"), names.index("check-4-1")
    assert names[here : here + 3] == ["setup", "extra-1", "extra-2"]
    assert names[there : there + 2] == ["check-4-1", "extra-3"]
    texts = [source(merged, f"extra-{number}") for number in (1, 2, 3)]
    assert texts == ["a = 1", "b = a", "c = 1"]
    assert merged.learners == {"extra-1", "extra-2", "extra-3"}


def test_an_empty_cell_is_no_extra_cell(assignment):
    mine = handed()
    put(mine, "setup", " \n\n")
    assert merge_answers(mine, assignment).cells == list(assignment.cells)


def test_code_in_the_place_of_a_text_is_an_extra_cell(assignment):
    mine = handed()
    write(mine, "text-4-1", "a = 1")
    cell(mine, "text-4-1")["cell_type"] = "code"
    merged = merge_answers(mine, assignment)
    assert source(merged, "extra-1") == "a = 1"
    assert source(merged, "text-4-1").startswith("## 4.1")


@pytest.mark.parametrize("end", ["\r\n", "\r", "  \n"])
def test_other_ends_of_lines_are_no_change(assignment, end):
    mine = handed()
    for one in mine["cells"]:
        one["source"] = "".join(one["source"]).replace("\n", end) + end
    merged = merge_answers(mine, assignment)
    assert (merged.cells, merged.repairs) == (list(assignment.cells), [])


def test_names_are_found_where_a_source_defines_them():
    text = "@x\nasync def a(): b = 1\nclass c: pass\nd, e = f == 1, g(h=2)\ni: int = 0"
    text += "\nif j == 1:\n    k = 1\nelse: l = 1\nm += 1\n%time n = 1\no"
    assert defined(text) == ["a", "c", "d", "e", "i"]
    assert defined(text, nested=True) == ["a", "c", "d", "e", "i", "k"]


# what may not get through


@pytest.mark.parametrize("mark", ["# NBVAL_SKIP", "\t## NBVAL_RAISES_EXCEPTION  "])
def test_comments_for_nbval_lose_their_effect_and_no_line_moves(assignment, mark):
    mine = handed()
    write(mine, "answer-4-1", f"{mark}\u2028#NBVAL_CHECK_OUTPUT\n{ANSWER}")
    put(mine, "setup", mark, metadata={"tags": ["raises-exception"]})
    merged = merge_answers(mine, assignment)
    found = source(merged, "answer-4-1")
    assert not [*find_comment_markers(found)]
    assert len(found.splitlines()) == 2 + len(ANSWER.splitlines())
    extra = next(c for c in merged.cells if c.id == "extra-1")
    assert (extra.metadata, [*find_comment_markers(extra.source)]) == ({}, [])
    assert len(merged.repairs) == 2


def test_what_no_file_can_hold_spoils_one_cell_alone(assignment):
    mine = cells.parse(json.dumps(handed()).encode())
    write(mine, "answer-4-1", f"{ANSWER}\n'\ud800\x00'")
    put(mine, "setup", "1", id="\ud800")
    merged = merge_answers(mine, assignment)
    assert source(merged, "answer-4-1") == f"{ANSWER}\n'\ufffd\ufffd'"
    json.dumps(merged.notebook(), ensure_ascii=False).encode()
    assert merged.repairs == [
        "answer-4-1 had characters that no file can hold: replaced"
    ]


def test_what_is_no_cell_is_left_out_with_a_note(assignment):
    mine = handed()
    mine["cells"][3:3] = [None, 5]
    mine["cells"] += [{}, {"metadata": [], "source": {"a": 1}, "id": 7}]
    merged = merge_answers(mine, assignment)
    assert merged.cells == list(assignment.cells)
    assert merged.repairs == ["2 damaged cells left out"]


def test_a_report_holds_thirty_repairs(assignment):
    merged = merge_answers(small(), assignment)
    code = [own for own in assignment.cells if own.is_code]
    assert len(merge_answers(swarm(), assignment).repairs) > 30
    assert merge_answers(swarm(), assignment).repairs[30:] == ["and 10 more"]
    assert len(merged.repairs) == min(len(code), 31)  # the last says how many more


def swarm():
    """As many of the learner's cells as need 40 repairs."""
    mine = handed()
    for _ in range(40):
        put(mine, "setup", "# NBVAL_SKIP")
    return mine


# what runs


def test_a_canary_is_the_check_once_more_below_the_stub(assignment):
    merged = merge_answers(handed("solutions"), assignment)
    stub, canary = canaries(merged)[:2]
    assert (stub.id, canary.id) == ("stub-answer-4-1", "canary-check-4-1")
    own = {own.id: own for own in assignment.cells}
    assert stub.source == own["answer-4-1"].source
    assert canary.source == own["check-4-1"].source
    assert "nbgrader" not in canary.metadata


def test_a_canary_drops_a_name_that_its_stub_raises_before(tmp_path):
    stub = "# YOUR CODE\nraise NotImplementedError()"
    given = code("import math as cl")
    own = taken(tmp_path, given, answer(stub, "sum"), check("assert x == 3", "test"))
    mine = small(answer("class cl: pass\nif True:\n    x = 3", "sum"))
    dropped, _ = canaries(merge_answers(mine, own))
    space = {"x": 3, "cl": 5}
    with pytest.raises(NotImplementedError):
        exec(dropped.source, space)
    assert "x" not in space and space["cl"] == 5  # what replaced a given name stays


def test_two_checks_of_one_answer_have_a_canary_each(tmp_path):
    parts = answer("x = 0", "sum"), check("x", "one"), check("x", "two")
    own = taken(tmp_path, *parts)
    names = [cell.id for cell in canaries(merge_answers(small(*parts), own))]
    assert names == ["stub-sum", "canary-one", "stub-sum-2", "canary-two"]


def test_a_cell_that_is_replaced_raises_its_sentence(assignment):
    merged = merge_answers(handed(), assignment)
    why = {"answer-4-1": "it said \"no\" and 'ended'"}
    ran = merged.notebook(canaries(merged), replaced=why)
    with pytest.raises(RuntimeError, match="and 'ended'"):
        exec(cell(ran, "answer-4-1")["source"])
    assert merged.cells == list(assignment.cells)  # what was merged stays
    assert ran["cells"][-1]["id"] == "canary-check-4-10"


def test_a_notebook_of_another_course_merges(tmp_path):
    own = taken(
        tmp_path,
        code("import math"),
        code(""),
        code("help = 1", "help", locked=True, grade=False, solution=False),
        answer("def add(a, b):\n    raise NotImplementedError()", "sum"),
        check("assert add(1, 2) == 3", "sum-test"),
    )
    right = answer("def add(a, b):\n    return a + b", "sum")
    mine = small(code("import math"), code(""), check("pass", "sum-test"), right)
    merged = merge_answers(mine, own)
    assert ids(merged) == ["cell-1", "cell-2", "help", "sum", "sum-test"]
    assert source(merged, "sum-test") == "assert add(1, 2) == 3"
    assert source(merged, "sum").endswith("return a + b")
    assert merged.repairs == [
        "sum-test was moved: put back in its place",
        "help was missing: the original ran",
        "sum-test was changed: the original ran",
    ]
    nbformat.validate(merged.notebook(canaries(merged)))


SPOILS = [
    lambda cells, n, chance: cells.pop(n),
    lambda cells, n, chance: cells.insert(n, copy.deepcopy(chance.choice(cells))),
    lambda cells, n, chance: chance.shuffle(cells),
    lambda cells, n, chance: cells[n].pop("id", None),
    lambda cells, n, chance: cells[n].update(metadata={}),
    lambda cells, n, chance: cells[n].update(cell_type="raw"),
    lambda cells, n, chance: cells[n].update(cell_type="code", source="# NBVAL_SKIP"),
    lambda cells, n, chance: cells[n].update(chance.choice(cells)),
]


def spoiled(seed):
    """A solution after something went wrong with it, up to 40 times."""
    chance, mine = random.Random(seed), handed("solutions")
    for _ in range(chance.choice([1, 3, 10, 40])):
        number = chance.randrange(len(mine["cells"]))
        chance.choice(SPOILS)(mine["cells"], number, chance)
    return mine


def test_whatever_happens_each_check_is_there_once_in_its_place(assignment):
    given = [own for own in assignment.cells if own.role != "answer"]
    for seed in range(200):
        merged = merge_answers(spoiled(seed), assignment)
        ran = merged.notebook(canaries(merged))
        nbformat.validate(ran)
        names = ids(merged)
        assert len({one["id"] for one in ran["cells"]}) == len(ran["cells"]), seed
        kept = [one for one in merged.cells if one in given]
        assert kept == given, seed
        order = [own.id for own in assignment.cells]
        assert [name for name in names if name in order] == order, seed
