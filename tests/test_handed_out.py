"""Notebooks that were handed out at c906e6a, with answers: they keep their points.

`handed_out/` has the exercises as they were then and what two learners wrote into them:
`right` what the solutions had, `mixed` something right, something wrong, a stub left as
it was, and cells of its own. With the exercises of today both get what they got then;
an exercise that is newer than their notebook is one that they have not started.
"""

import hashlib
import json
import os
import re
from functools import cache
from pathlib import Path

from course_lib.grading.notebook.assignment import choose, load_assignments
from course_lib.grading.notebook.cells import parse, tidy
from course_lib.grading.notebook.merging import merge_answers
from tests.commands import COMMAND, Python

ROOT = Path(__file__).parents[1]
HERE = ROOT / "tests/handed_out"
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
POINTS = json.loads((HERE / "points.json").read_text(encoding="utf-8"))
SHA256 = "ad39b6b6a7af5eb9eaf1205dd3d29496bc28142a5c6d67d75d912abe2965b68b"
_MARK = re.compile(r"^ *### (BEGIN|END) SOLUTION\n?", re.MULTILINE)


def handed_in(learner, notebook):
    """The notebook with what a learner wrote into it, as bytes."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for place, source in written(learner, notebook.stem):
        name = place.removeprefix("below ")
        number = [cell["id"] for cell in content["cells"]].index(name)
        if name == place:
            content["cells"][number]["source"] = source
        else:
            content["cells"].insert(number + 1, code_cell(f"{number:08x}", source))
    return json.dumps(content).encode()


def written(learner, name):
    """The cells that a learner wrote: in place of which, or below which, and what."""
    text = (HERE / learner / f"{name}.py").read_text(encoding="utf-8")
    _, *parts = re.split(r"^# %% (.+)\n", text, flags=re.MULTILINE)
    return [(place, source.strip()) for place, source in zip(parts[::2], parts[1::2])]


def code_cell(name, source):
    cell = {"cell_type": "code", "id": name, "metadata": {}, "source": source}
    return cell | {"outputs": [], "execution_count": None}


@cache
def today():
    return load_assignments(ROOT / "exercises")


def merged(data):
    """What the grader runs of a notebook."""
    notebook = tidy(parse(data))
    return merge_answers(notebook, choose(notebook, today()))


def is_the_solution(notebook):
    """True if the cells that run are those that run of the solution of today."""
    path = ROOT / "solutions" / f"{notebook.assignment.name}.ipynb"
    return code(notebook) == code(merged(path.read_bytes()))


def code(notebook):
    cells = notebook.cells
    return [(cell.id, _MARK.sub("", cell.source).strip()) for cell in cells]


def graded(folder, notebooks):
    """What the command `grade` gives for each exercise in these notebooks."""
    for name, data in notebooks.items():
        place = folder / "handed_in" / "ada" / f"{name}.ipynb"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    options = "grade", "handed_in", "--json=grades.json"
    process = Python(COMMAND, *options, cwd=folder, env=os.environ.copy())
    printed = process.communicate(timeout=300)
    assert process.code == 0, printed
    grades = json.loads((folder / "grades.json").read_text(encoding="utf-8"))
    tasks = [task for grade in grades["submissions"] for task in grade["tasks"]]
    return {
        task["id"]: told(task["points"], task["max_points"], task["outcome"])
        for task in tasks
    }


def all_points(assignment):
    return {
        check.exercise: told(check.points, check.points, "right")
        for check in assignment.checks
    }


def kept(learner):
    """What this learner got then, and each newer exercise of the same notebooks."""
    names = {path.stem for path in NOTEBOOKS}
    of_today = [one for one in today() if one.name in names]
    checks = [check for assignment in of_today for check in assignment.checks]
    newer = {
        check.exercise: told(0, check.points, "not started")
        for check in checks
        if check.exercise not in POINTS[learner]
    }
    return newer | POINTS[learner]


def told(points, most, outcome):
    return f"{points:g} of {most:g}, {outcome}"


def test_what_was_handed_out_and_handed_in_never_changes():
    answers = [HERE / who / f"{path.stem}.py" for who in POINTS for path in NOTEBOOKS]
    files = *NOTEBOOKS, *answers, HERE / "points.json"
    digest = hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()
    assert digest == SHA256, (
        "tests/handed_out is what people have, and what they got for it: put it back"
    )


def test_right_answers_keep_their_points(tmp_path):
    points, others = {}, {}
    for notebook in NOTEBOOKS:
        data = handed_in("right", notebook)
        merger = merged(data)
        if is_the_solution(merger):  # test_checks.py runs it, and it gets all points
            points |= all_points(merger.assignment)
        else:
            others[notebook.stem] = data
    if others:
        points |= graded(tmp_path, others)
    assert points == kept("right")


def test_a_mixture_of_right_wrong_and_missing_answers_keeps_its_points(tmp_path):
    notebooks = {path.stem: handed_in("mixed", path) for path in NOTEBOOKS}
    assert graded(tmp_path, notebooks) == kept("mixed")
