"""A learner's copy of the course: what comes in, and that no word of theirs is lost."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_lib.__main__ import main
from course_lib.exercises import progress
from course_lib.workspace import atomic, clone, command, folder, merging, notebooks
from course_lib.workspace.plan import Original, Update
from tests import pages

EXERCISE, LESSON, SCRIPT = "exercises/04.ipynb", "notebooks/04.ipynb", "notebooks/t.py"


# cells and notebooks


def cell(name, text, kind="text"):
    """A cell as the course writes them: `text`, `answer`, `check` or `given`."""
    about = {"grade_id": name, "solution": kind == "answer", "grade": kind == "check"}
    graded = kind in ("answer", "check")
    new = {"cell_type": "markdown" if kind == "text" else "code", "id": name}
    new |= {"metadata": {"nbgrader": about} if graded else {}, "source": text}
    shown = {"outputs": [], "execution_count": None}
    return new if kind == "text" else new | shown


def notebook(*cells, **metadata):
    """A notebook; `released` is noted as `release` does."""
    whole = {"cells": list(cells), "metadata": metadata}
    whole |= {"nbformat": 4, "nbformat_minor": 5}
    metadata["course"] = {"released": notebooks.fingerprint(whole)}
    return whole


def exercise(stub="stub", text="task", check="check", given="import a", more=()):
    cells = [
        cell("setup", given, "given"),
        cell("text", text),
        cell("answer", stub, "answer"),
        cell("check", check, "check"),
    ]
    return notebook(*cells, *more)


def edited(whole, **texts):
    """The same with other sources in cells of these ids."""
    cells = [
        one | {"source": texts.get(one["id"], one["source"])} for one in whole["cells"]
    ]
    return whole | {"cells": cells}


def shown(whole):
    """The same with outputs."""
    output = {"output_type": "stream", "text": "ran", "name": "stdout"}
    code = {"outputs": [output], "execution_count": 1}
    cells = (one | (code if "outputs" in one else {}) for one in whole["cells"])
    return whole | {"cells": list(cells)}


def ran(whole):
    """The same after a run in JupyterLab, which adds a cell at the end."""
    return shown(notebook(*whole["cells"], cell("blank", "", "given")))


def sources(whole):
    return [one.source for one in notebooks.cells(whole)]


def merged(course, base, learner):
    return sources(merging.merge_versions(course, merging.hashes(base), learner))


# an exercise that course and learner changed: what each did, and the sources after it
OLD = exercise()
NEW = exercise("new stub", "new task", "new check", "import b")
OWN = cell("own", "mine", "given")
COPY = cell("copy", "mine", "answer")
COPY["metadata"]["nbgrader"]["grade_id"] = "answer"
SETUP, TEXT, ANSWER, CHECK = OLD["cells"]
ALL_NEW = ["import b", "new task", "new stub", "new check"]
MERGES = {
    "nothing": (OLD, ALL_NEW),
    "it was run": (ran(OLD), ALL_NEW),
    "the answer": (edited(OLD, answer="mine"), [*ALL_NEW[:2], "mine", "new check"]),
    "the answer, to nothing": (edited(OLD, answer=" \n"), ALL_NEW),
    "the answer, to the new stub": (edited(OLD, answer="new stub"), ALL_NEW),
    "blanks at ends of lines": (edited(OLD, answer="stub  \n"), ALL_NEW),
    "a text": (
        edited(OLD, text="my note"),
        ["import b", "new task", "my note", "new stub", "new check"],
    ),
    "a check": (edited(OLD, check="check\nprint"), [*ALL_NEW, "check\nprint"]),
    "a cell added at the top": (notebook(OWN, *OLD["cells"]), ["mine", *ALL_NEW]),
    "a cell added behind the text": (
        notebook(SETUP, TEXT, OWN, ANSWER, CHECK),
        ["import b", "new task", "mine", "new stub", "new check"],
    ),
    "a cell added at the end": (notebook(*OLD["cells"], OWN), [*ALL_NEW, "mine"]),
    "the answer, moved": (
        notebook(ANSWER | {"source": "mine"}, SETUP, TEXT, CHECK),
        [*ALL_NEW[:2], "mine", "new check"],
    ),
    "a cell behind a moved answer": (
        notebook(ANSWER | {"source": "a"}, OWN, SETUP, TEXT, CHECK),
        [*ALL_NEW[:2], "a", "mine", "new check"],
    ),
    "a copy of the answer": (
        notebook(SETUP, TEXT, ANSWER, COPY, CHECK),
        [*ALL_NEW[:2], "mine", "new check"],
    ),
    "the answer and a copy of it": (
        notebook(SETUP, TEXT, ANSWER | {"source": "first"}, COPY, CHECK),
        [*ALL_NEW[:2], "first", "mine", "new check"],
    ),
    "a copy of the check": (
        notebook(*OLD["cells"], CHECK | {"id": "second"}),
        [*ALL_NEW, "check"],
    ),
    "two answers of one id": (
        notebook(SETUP, TEXT, ANSWER, ANSWER | {"source": "mine"}, CHECK),
        [*ALL_NEW[:2], "mine", "new check"],
    ),
    "the answer was deleted": (notebook(SETUP, TEXT, CHECK), ALL_NEW),
    "all was deleted": (notebook(), ALL_NEW),
    "ids were lost": (
        notebook(*(one | {"id": None} for one in OLD["cells"])),
        ALL_NEW,
    ),
    "the answer was turned into text": (
        notebook(SETUP, TEXT, ANSWER | {"cell_type": "markdown", "source": "mine"}),
        [*ALL_NEW[:2], "mine", "new check"],
    ),
}


@pytest.mark.parametrize(("learner", "expected"), MERGES.values(), ids=MERGES)
def test_an_exercise_that_changed_keeps_what_the_learner_wrote(learner, expected):
    assert merged(NEW, OLD, learner) == expected
    ids = [one["id"] for one in merging.merge_versions(NEW, {}, learner)["cells"]]
    assert len({*ids}) == len(ids)


def test_a_cell_that_only_the_learner_changed_stays_in_its_place():
    learner = edited(OLD, setup="import mine", text="note", answer="mine")
    assert merged(OLD, OLD, learner) == ["import mine", "note", "mine", "check"]


def test_a_cell_that_the_course_removed_goes_unless_the_learner_changed_it():
    without = notebook(SETUP, ANSWER, CHECK)
    assert merged(without, OLD, OLD) == ["import a", "stub", "check"]
    learner = edited(OLD, text="note")
    assert merged(without, OLD, learner) == ["import a", "note", "stub", "check"]


def test_without_a_base_all_that_differs_is_the_learners():
    found = sources(merging.merge_versions(NEW, {}, edited(OLD, answer="mine")))
    assert found == [
        *("import b", "import a", "new task", "task", "mine", "new check", "check")
    ]


def test_what_a_cell_showed_stays_where_its_source_stays():
    new = edited(OLD, setup="import b")
    merged = merging.merge_versions(new, merging.hashes(OLD), ran(OLD))
    setup, _, answer, *_ = merged["cells"]
    assert setup["outputs"] == [] and answer["outputs"][0]["text"] == "ran"


def test_a_learners_kernel_stays_and_the_courses_metadata_come():
    theirs = OLD | {"metadata": {"kernelspec": "mine", "course": "old", "own": 1}}
    about = merging.merge_versions(NEW, {}, theirs)["metadata"]
    assert about == {**NEW["metadata"], "kernelspec": "mine", "own": 1}


def test_a_copy_of_a_changed_cell_can_be_deleted():
    locked = {"deletable": False, "editable": False, "tags": ["t"]}
    about = CHECK["metadata"] | locked
    learner = notebook(ANSWER, CHECK | {"source": "mine", "metadata": about})
    *_, last = merging.merge_versions(NEW, merging.hashes(OLD), learner)["cells"]
    assert last["metadata"] == {"tags": ["t"]}


# the plan: course, what was noted, what the learner has


class Disk(dict):
    """A folder without a disk; what a plan does is done in it."""

    read = dict.get

    def update_from(self, course, before, *, most=None):
        plan = Update(course, before, self.read)
        for step in plan.steps[:most]:
            if step.does == "write":
                self[step.path] = step.data
            elif step.does == "move":
                self[step.to] = self.pop(step.path)
            elif step.does == "remove":
                del self[step.path]
        return plan

    def sources(self, path):
        return sources(json.loads(self[path]))


def original(value, **more):
    return Original(data(value), **more)


def data(value):
    return notebooks.dump(value) if isinstance(value, dict) else value.encode()


def kinds(plan):
    return [(step.kind, step.path) for step in plan.steps if step.kind]


FIRST = {
    LESSON: original(shown(notebook(cell("a", "a", "given")))),
    EXERCISE: original(OLD),
    SCRIPT: original("print(1)"),
}
SECOND = {
    LESSON: original(notebook(cell("a", "b", "given"))),
    EXERCISE: original(NEW),
    SCRIPT: original("print(2)"),
}


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def bases(disk):
    """What is noted after a first call."""
    return disk.update_from(FIRST, {}).bases


def test_the_first_call_hands_all_out_and_a_second_finds_nothing_to_do(disk, bases):
    assert disk.keys() == FIRST.keys()
    assert b"ran" not in disk[LESSON]
    plan = disk.update_from(FIRST, bases)
    assert plan.steps == [] and plan.bases == bases


def test_what_the_learner_did_not_change_is_replaced(disk, bases):
    disk[LESSON], disk[EXERCISE] = (
        data(ran(json.loads(disk[n]))) for n in (LESSON, EXERCISE)
    )
    plan = disk.update_from(SECOND, bases)
    assert kinds(plan) == [("updated", path) for path in SECOND]
    assert disk.sources(LESSON) == ["b"] and disk.sources(EXERCISE) == ALL_NEW
    assert disk[SCRIPT] == b"print(2)"


def test_outputs_stay_as_long_as_the_course_does_not_change(disk, bases):
    before = disk[LESSON] = data(ran(json.loads(disk[LESSON])))
    course = {**FIRST, LESSON: original(notebook(cell("a", "a", "given")))}
    assert disk.update_from(course, bases).steps == []
    assert disk[LESSON] == before


# a lesson that the learner ran; what the course hands out later; cells with outputs
RUN_LESSON = notebook(*(cell(n, n, "given") for n in "abc"), cell("text", "text"))
NEXT = {
    "a text": (edited(RUN_LESSON, text="new text"), ["a", "b", "c"]),
    "a tag": (
        notebook(*({**c, "metadata": {"tags": ["t"]}} for c in RUN_LESSON["cells"])),
        ["a", "b", "c"],
    ),
    "an id": (
        notebook(*({**c, "id": f"new-{c['id']}"} for c in RUN_LESSON["cells"])),
        ["new-a", "new-b", "new-c"],
    ),
    "the code of a cell": (edited(RUN_LESSON, b="new"), ["a"]),
    "a new cell": (notebook(cell("0", "0", "given"), *RUN_LESSON["cells"]), []),
    "a cell less": (notebook(*RUN_LESSON["cells"][1:]), []),
}


@pytest.mark.parametrize(("new", "expected"), NEXT.values(), ids=list(NEXT))
def test_what_a_lesson_showed_stays_above_the_first_code_that_is_new(
    disk, new, expected
):
    course = {LESSON: original(RUN_LESSON)}
    bases = disk.update_from(course, {}).bases
    disk[LESSON] = data(ran(json.loads(disk[LESSON])))
    plan = disk.update_from({LESSON: original(shown(new))}, bases)
    assert kinds(plan) == [("updated", LESSON)]
    cells = json.loads(disk[LESSON])["cells"]
    code = [one for one in cells if one["cell_type"] == "code"]
    assert [one["id"] for one in code if one["outputs"]] == expected
    assert all(one["execution_count"] for one in code if one["outputs"])
    assert disk.update_from({LESSON: original(shown(new))}, plan.bases).steps == []


def test_a_tag_that_the_course_adds_comes_too(disk, bases):
    tagged = cell("a", "a", "given") | {"metadata": {"tags": ["raises-exception"]}}
    plan = disk.update_from({**FIRST, LESSON: original(notebook(tagged))}, bases)
    assert kinds(plan) == [("updated", LESSON)] and b"raises-" in disk[LESSON]


@pytest.mark.parametrize("path", [LESSON, SCRIPT])
def test_what_the_learner_changed_stays_and_the_new_one_is_beside_it(disk, bases, path):
    own = disk[path] = data(notebook(cell("a", "mine")) if path == LESSON else "mine")
    plan = disk.update_from(SECOND, bases)
    name = path.replace(".", ".new.")
    assert ("beside", path) in kinds(plan)
    assert disk[path] == own and disk[name] == SECOND[path].data
    assert disk.update_from(SECOND, plan.bases).steps == []


def third(text):
    return {**SECOND, SCRIPT: original(text)}


def test_the_next_version_replaces_the_one_beside(disk, bases):
    disk[SCRIPT] = b"mine"
    plan = disk.update_from(SECOND, bases)
    disk.update_from(third("print(3)"), plan.bases)
    assert {n: d for n, d in disk.items() if "t" in n.split("/")[1]} == {
        SCRIPT: b"mine",
        "notebooks/t.new.py": b"print(3)",
    }


def test_a_newer_version_that_was_written_into_stays_too(disk, bases):
    disk[SCRIPT] = b"mine"
    plan = disk.update_from(SECOND, bases)
    disk["notebooks/t.new.py"] = b"mine, too"
    plan = disk.update_from(third("print(3)"), plan.bases)
    assert disk["notebooks/t.new.py"] == b"mine, too"
    assert disk["notebooks/t.new-2.py"] == b"print(3)"
    assert disk.update_from(third("print(3)"), plan.bases).steps == []


def test_a_newer_version_that_was_deleted_does_not_come_again(disk, bases):
    disk[SCRIPT] = b"mine"
    plan = disk.update_from(SECOND, bases)
    del disk["notebooks/t.new.py"]
    assert disk.update_from(SECOND, plan.bases).steps == []


def test_a_newer_version_goes_when_it_was_taken(disk, bases):
    disk[SCRIPT] = b"mine"
    plan = disk.update_from(SECOND, bases)
    disk[SCRIPT] = disk["notebooks/t.new.py"]
    plan = disk.update_from(SECOND, plan.bases)
    assert kinds(plan) == [("gone", "notebooks/t.new.py")]
    assert plan.bases.keys() == SECOND.keys()


def test_what_the_course_removed_or_renamed_goes_unless_it_was_changed(disk, bases):
    renamed = {"notebooks/05.ipynb": FIRST[LESSON], EXERCISE: FIRST[EXERCISE]}
    disk[SCRIPT] = b"mine"
    plan = disk.update_from(renamed, bases)
    assert kinds(plan) == [
        ("new", "notebooks/05.ipynb"),
        ("gone", LESSON),
        ("stays", SCRIPT),
    ]
    assert disk[SCRIPT] == b"mine" and LESSON not in disk
    assert disk.update_from(renamed, plan.bases).steps == []


def test_an_exercise_that_the_course_removed_stays_with_its_answers(disk, bases):
    disk[EXERCISE] = data(edited(OLD, answer="mine"))
    plan = disk.update_from({LESSON: FIRST[LESSON]}, bases)
    assert ("stays", EXERCISE) in kinds(plan)
    assert "mine" in disk.sources(EXERCISE)


def test_what_the_learner_deleted_comes_back_as_it_was_handed_out(disk, bases):
    del disk[EXERCISE]
    assert kinds(disk.update_from(FIRST, bases)) == [("new", EXERCISE)]


DAMAGES = {
    "cut short": data(OLD)[:200],
    "empty": b"",
    "a list": b"[]",
    "no cells": b'{"nbformat": 4}',
    "cells of another kind": b'{"nbformat": 4, "cells": [1]}',
    "a cell without a source": b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}',
    "marks of a conflict": b"<<<<<<< HEAD\n" + data(OLD),
    "no text": b"\xff\xfe\x00",
    "too deep": b"[" * 200_000,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("path", [LESSON, EXERCISE])
def test_a_damaged_notebook_is_kept_beside_the_courses(disk, bases, path, damage):
    disk[path] = damage
    plan = disk.update_from(FIRST, bases)
    assert kinds(plan) == [("damaged", path)]
    assert disk[f"{path}.damaged"] == damage
    assert disk.sources(path) == sources(json.loads(FIRST[path].data))
    disk[path] = b"again"
    disk.update_from(FIRST, plan.bases)
    assert disk[f"{path}.damaged"] == damage
    assert disk[f"{path}.damaged-2"] == b"again"


def test_what_the_clone_cannot_give_is_said_and_left_alone(disk, bases):
    before = dict(disk)
    plan = disk.update_from({**SECOND, LESSON: None}, bases)
    assert ("unreadable", LESSON) in kinds(plan)
    assert disk[LESSON] == before[LESSON] and plan.bases[LESSON] == bases[LESSON]


def test_answers_that_stand_in_the_clone_are_taken_over(disk):
    started = data(ran(edited(OLD, answer="mine")))
    course = {EXERCISE: original(OLD, started=started)}
    plan = disk.update_from(course, {})
    assert kinds(plan) == [("taken over", EXERCISE)]
    assert disk.sources(EXERCISE) == ["import a", "task", "mine", "check"]
    assert b"ran" not in disk[EXERCISE]
    disk.update_from({EXERCISE: original(NEW)}, plan.bases)
    assert disk.sources(EXERCISE) == [*ALL_NEW[:2], "mine", "new check"]


def test_a_damaged_exercise_of_the_clone_is_kept_too(disk):
    course = {EXERCISE: original(OLD, started=b"<<<<<<< mine")}
    plan = disk.update_from(course, {})
    assert kinds(plan)[0] == ("damaged there", f"{EXERCISE}.damaged")
    assert disk[f"{EXERCISE}.damaged"] == b"<<<<<<< mine"
    assert disk.update_from(course, plan.bases).steps == []


def test_where_nobody_knows_who_wrote_it_all_is_kept(disk):
    unknown = {path: Original(one.data, certain=False) for path, one in FIRST.items()}
    plan = disk.update_from(unknown, {})
    assert disk.update_from(unknown, plan.bases).steps == []
    disk.update_from(SECOND, plan.bases)
    assert disk[SCRIPT] == b"print(1)" and "task" in disk.sources(EXERCISE)
    assert disk["notebooks/t.new.py"] == b"print(2)"


def test_without_a_note_what_equals_the_course_is_the_courses(disk, bases):
    plan = disk.update_from(FIRST, {})
    assert plan.steps == [] and plan.bases == bases


def test_ids_that_are_missing_in_an_exercise_keep_it_whole(disk):
    old, new = (
        notebook(*({k: v for k, v in one.items() if k != "id"} for one in e["cells"]))
        for e in (OLD, NEW)
    )
    plan = disk.update_from({EXERCISE: original(old)}, {})
    own = disk[EXERCISE] = data(old | {"cells": [*old["cells"], OWN]})
    disk.update_from({EXERCISE: original(new)}, plan.bases)
    assert disk[EXERCISE] == own
    assert disk.sources("exercises/04.new.ipynb") == ALL_NEW


# whatever course and learner do


class Chance:
    """Random edits; each line that the learner writes is one of its own."""

    def __init__(self, seed):
        self.random, self.lines, self.count = random.Random(seed), set(), 0

    def name(self):
        self.count += 1
        return f"n{self.count}"

    def course(self):
        """What the course hands out next: cells and files that come, change and go."""
        paths = [EXERCISE, LESSON, SCRIPT, "exercises/05.ipynb", "docs/a.md"]
        chosen = [path for path in paths if self.random.random() < 0.8]
        return {path: self.handed_out(path) for path in chosen}

    def handed_out(self, path):
        certain = self.random.random() < 0.9
        if not path.endswith(".ipynb"):
            return original(f"course {self.random.randrange(3)}\n", certain=certain)
        cells = [
            cell(f"{kind}-{number}", f"{kind} {self.random.randrange(2)}\nend", kind)
            for number in range(self.random.randrange(1, 4))
            for kind in ("text", "answer", "check", "given")
            if self.random.random() < 0.8
        ]
        self.random.shuffle(cells)
        return original(notebook(*cells), certain=certain)

    def write(self, text=""):
        line = self.name() + " mine"
        self.lines.add(line)
        return self.random.choice([f"{text}\n{line}", line, f"{line}\n{text}"])

    def learner(self, disk):
        for path in sorted(disk):
            action = self.random.randrange(5)
            if action == 0:
                continue
            whole = notebooks.parse(disk[path])
            if whole and action < 4:
                for _ in range(self.random.randrange(4)):
                    self.edit(whole["cells"])
                disk[path] = data(whole)
            elif self.random.random() < 0.3:
                disk[path] = data(self.write(disk[path].decode(errors="replace")))
            if self.random.random() < 0.1:
                disk[f"notebooks/{self.name()}.ipynb"] = disk[path]

    def edit(self, cells):
        """Write into a cell, add one, copy, move, turn, lose an id or split."""
        new = cell(self.name(), self.write(), self.random.choice(["text", "given"]))
        place = self.random.randrange(len(cells) + 1)
        if place == len(cells):
            return cells.append(new)
        one = dict(cells[place])
        match self.random.randrange(7):
            case 0:
                cells[place] = one | {"source": self.write(one["source"])}
            case 1:
                cells.insert(place, new)
            case 2:
                one = one | {"id": self.name(), "source": self.write(one["source"])}
                cells.append(one)
            case 3:
                cells.insert(self.random.randrange(len(cells)), cells.pop(place))
            case 4:
                cells[place] = one | {"cell_type": "raw", "source": self.write()}
            case 5:
                cells[place] = one | {"id": self.random.choice([None, "same", "x"])}
            case 6:
                cells[place : place + 1] = [one, one | {"source": self.write()}]
        return None


def lines(disk):
    """Every line below a folder, those in notebooks as people read them."""
    for path, content in disk.items():
        whole = notebooks.parse(content) if ".ipynb" in path else None
        texts = sources(whole) if whole else [content.decode(errors="replace")]
        for text in texts:
            yield from (line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize("part", range(4))
def test_no_line_that_a_learner_wrote_is_ever_lost(part):
    for seed in range(part * 30, part * 30 + 30):
        chance, disk, noted = Chance(seed), Disk(), {}
        for _ in range(5):
            course = chance.course()
            if chance.random.random() < 0.3:  # a call that ends before all is done
                disk.update_from(course, noted, most=chance.random.randrange(9))
                assert chance.lines <= set(lines(disk)), seed
            plan = disk.update_from(course, noted)
            assert chance.lines <= set(lines(disk)), seed
            assert disk.update_from(course, plan.bases).steps == [], seed
            # a note may be lost, or an older one come back
            noted = chance.random.choice([plan.bases] * 3 + [{}, noted])
            chance.learner(disk)
            # what the learner deletes is not lost
            chance.lines &= set(lines(disk))


# on a disk


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A small course in git, of which the command hands out copies."""
    root = tmp_path / "clone"
    put(root, FIRST)
    put(root, {"docs/images/a.bin": original("\0"), "README.md": original("read")})
    for hidden in (".ipynb_checkpoints/04-checkpoint.ipynb", "__pycache__/t.pyc"):
        put(root, {f"notebooks/{hidden}": original("hidden")})
    monkeypatch.setattr(command, "ROOT", root)
    monkeypatch.chdir(tmp_path)
    return root


def put(root, files):
    for name, one in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(one.data)


def git(root, *args):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *args], cwd=root, check=True, capture_output=True)


@pytest.fixture
def committed(course):
    if not shutil.which("git"):
        pytest.skip("needs git")
    git(course, "init", "-q")
    git(course, "add", ".")
    git(course, "commit", "-qm", "first")
    return course


@pytest.fixture
def work(tmp_path):
    return tmp_path / "clone" / "work"


@pytest.fixture
def update(capsys):
    """Run the command; its exit status and what it printed."""

    def run(*args):
        status = main(["work", *map(str, args)])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def tree(root):
    """All files below a folder, with what is in them.

    Without git's index: in it `git diff` notes anew how old unchanged files are.
    """
    files = [path for path in root.rglob("*") if path.is_file()]
    files = [path for path in files if path.parts[-2:] != (".git", "index")]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def answered(path, **texts):
    path.write_bytes(data(edited(json.loads(path.read_bytes()), **texts)))


def test_the_command_makes_a_folder_and_says_where_to_go(course, work, update):
    status, printed = update()
    assert status == 0
    assert "new: notebooks/ (2 files), exercises/ (1 file)" in printed
    assert printed.endswith("Open clone/work/notebooks/04.ipynb in JupyterLab\n")
    named = {*FIRST, "docs/images/a.bin", "README.md", ".course.json"}
    assert tree(work).keys() == named
    before = tree(work)
    assert update()[1].startswith("clone/work/ is up to date. Open")
    assert tree(work) == before


def test_another_folder_may_be_named(course, tmp_path, update):
    status, printed = update("mine/here")
    assert status == 0 and "Open mine/here/notebooks/04.ipynb" in printed
    assert (tmp_path / "mine/here/exercises/04.ipynb").exists()
    assert not (course / "work").exists()


def test_an_update_brings_what_is_new_and_names_it(committed, work, update):
    update()
    answered(work / EXERCISE, answer="mine")
    (work / SCRIPT).write_text("mine")
    put(committed, SECOND)
    git(committed, "commit", "-qam", "second")
    _, printed = update()
    assert f"updated: {LESSON}\n" in printed
    assert f"updated, with what you wrote: {EXERCISE}\n" in printed
    assert f"kept as it is: {SCRIPT}. The course's new one is beside it" in printed
    assert "mine" in sources(json.loads((work / EXERCISE).read_bytes()))
    assert "is up to date" in update()[1]


def take_over(course, work, update):
    """A learner who wrote in the clone, then an update that resets it."""
    answered(course / EXERCISE, answer="mine", text="my note")
    (course / "exercises/.progress.jsonl").write_text("done")
    os.utime(course / LESSON, (0, 0))  # as after a copy: unchanged, of another age
    before = tree(course)
    _, printed = update()
    assert before.items() <= tree(course).items()
    put(course, SECOND)
    update()
    assert (work / "exercises/.progress.jsonl").read_text() == "done"
    assert {"mine", "my note"} <= {*sources(json.loads((work / EXERCISE).read_bytes()))}
    return printed


def test_answers_and_progress_of_before_are_taken_over(committed, work, update):
    printed = take_over(committed, work, update)
    assert f"taken over from the clone: {EXERCISE} and exercises/.progress" in printed
    texts = sources(json.loads((work / EXERCISE).read_bytes()))
    assert texts == ["import b", "new task", "my note", "mine", "new check"]


def test_they_are_where_there_is_no_git(course, work, update, monkeypatch):
    monkeypatch.setenv("PATH", "")
    take_over(course, work, update)


def test_they_are_where_somebody_committed_them(committed, work, update):
    answered(committed / EXERCISE, answer="mine", text="my note")
    git(committed, "commit", "-qam", "mine")
    take_over(committed, work, update)


def test_progress_is_taken_over_only_once(course, work, update):
    noted = course / "exercises/.progress.jsonl"
    update()
    noted.write_text("later")
    update()
    assert not (work / "exercises/.progress.jsonl").exists()


def test_what_an_instructor_wrote_in_a_hubs_clone_reaches_no_learner(
    committed, work, update, monkeypatch
):
    monkeypatch.setattr(clone.os, "access", lambda path, mode: False)
    answered(committed / EXERCISE, answer="the solution")
    (committed / "exercises/.progress.jsonl").write_text("done")
    update()
    assert work.exists() and not (work / "exercises/.progress.jsonl").exists()
    assert json.loads((work / EXERCISE).read_bytes()) == OLD


def test_what_a_hub_without_git_hands_out_is_the_courses(
    course, work, update, monkeypatch
):
    monkeypatch.setattr(clone.os, "access", lambda path, mode: False)
    update()
    put(course, SECOND)
    assert f"updated: {LESSON}, {SCRIPT} and {EXERCISE}" in update()[1]


def test_a_note_in_a_lesson_of_the_clone_is_not_lost(committed, work, update):
    (committed / LESSON).write_bytes(data(notebook(cell("a", "my note"))))
    update()
    put(committed, SECOND)
    update()
    assert "my note" in sources(json.loads((work / LESSON).read_bytes()))
    assert "kept" not in update()[1]


@pytest.mark.parametrize("path", [LESSON, EXERCISE])
def test_where_git_left_the_marks_of_a_conflict(committed, work, update, path):
    (committed / path).write_text("<<<<<<< mine")
    status, _ = update()
    assert status == 0
    assert (work / f"{path}.damaged").read_text() == "<<<<<<< mine"
    assert notebooks.parse((work / path).read_bytes())
    assert "is up to date" in update()[1]


def test_a_damaged_notebook_without_git_is_said(course, work, update):
    (course / LESSON).write_text("<<<<<<< mine")
    status, printed = update()
    assert status == 0 and f"{LESSON} of the clone cannot be read" in printed
    assert (work / EXERCISE).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give files away")
def test_a_clone_that_is_somebody_elses_is_asked_as_ones_own(committed):
    for path in (committed, committed / ".git"):
        os.chown(path, 12_345, 12_345)
    # what this machine's owner allows is another matter: safe.directory
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    alone = subprocess.run(
        ["git", "log"], cwd=committed, capture_output=True, text=True, env=env
    )
    assert "dubious ownership" in alone.stderr
    assert all(one.certain for one in clone.course(committed).values())


def test_a_clone_within_another_is_asked_of_its_own_files(committed, tmp_path):
    outer = tmp_path / "outer"
    shutil.copytree(committed, outer / "course", ignore=lambda *_: [".git"])
    git(outer, "init", "-q")
    git(outer, "add", ".")
    git(outer, "commit", "-qm", "all")
    (outer / "course" / SCRIPT).write_text("mine")
    handed_out = clone.course(outer / "course")
    assert [n for n, one in handed_out.items() if not one.certain] == [SCRIPT]


# what cannot be, each with its sentence


def refused(update, *args):
    status, printed = update(*args)
    assert status == 1 and printed.count("\n") == 1, printed
    return printed


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (".", "holds the course itself"),
        ("clone", "holds the course itself"),
        ("clone/notebooks", "is a part of the course"),
        ("clone/notebooks/work", "is a part of the course"),
        ("clone/.git/work", "is a part of the course"),
        ("clone/README.md", "is a file"),
        ("linked", "holds the course itself"),
        ("other", "holds the course itself"),
    ],
)
def test_a_folder_that_will_not_do(course, tmp_path, update, name, sentence):
    (tmp_path / "linked").symlink_to("clone")
    put(tmp_path, {"other/course_lib/__init__.py": original("")})
    before = tree(tmp_path)
    assert sentence in refused(update, name)
    assert tree(tmp_path) == before


def test_a_file_named_work_is_left_alone(course, work, update):
    work.write_text("mine")
    assert "is a file. Name another folder" in refused(update)
    assert work.read_text() == "mine"


def test_a_package_without_lessons(course, update, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "ROOT", tmp_path)
    assert "there are no lessons in" in refused(update)


def test_a_folder_may_be_a_link_itself(course, work, tmp_path, update):
    (tmp_path / "large disk").mkdir()
    work.symlink_to(tmp_path / "large disk")
    assert update()[0] == 0
    assert (tmp_path / "large disk" / EXERCISE).exists()


@pytest.mark.parametrize("name", ["notebooks", LESSON, ".course.json"])
def test_no_link_out_of_the_folder_is_followed(course, work, tmp_path, update, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "04.ipynb").write_text("mine")
    (work / name).parent.mkdir(parents=True)
    (work / name).symlink_to(outside if name == "notebooks" else outside / "04.ipynb")
    assert "no link out of it is followed" in refused(update)
    assert tree(outside) == {"04.ipynb": b"mine"}


def test_a_link_within_the_folder_loses_nothing(course, work, update):
    update()
    own = work / "notebooks/own.py"
    own.write_text("mine")
    (work / SCRIPT).unlink()
    (work / SCRIPT).symlink_to(own)
    put(course, SECOND)
    assert update()[0] == 0
    assert own.read_text() == "mine"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_something_else_in_the_place_of_a_file(course, work, update, make):
    (work / LESSON).parent.mkdir(parents=True)
    make(work / LESSON)
    assert "is no file. Move it away" in refused(update)


ERRORS = {
    errno.ENOSPC: "found no room on the disk. Free some",
    errno.EDQUOT: "found no room on the disk. Free some",
    errno.EROFS: "Read-only file system",
    errno.EACCES: "Permission denied",
}


@pytest.mark.parametrize("number", ERRORS, ids=[errno.errorcode[n] for n in ERRORS])
@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_disk_that_takes_no_more(
    committed, work, update, monkeypatch, number, writes
):
    update()
    answered(work / EXERCISE, answer="mine")
    (work / SCRIPT).write_text("my script")
    put(committed, SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "open", failing(number, writes), raising=False)
        printed = refused(update)
    assert ERRORS[number] in printed and "Nothing of yours is lost" in printed
    assert no_part_of_a_file(work)
    assert "mine" in sources(json.loads((work / EXERCISE).read_bytes()))
    assert (work / SCRIPT).read_text() == "my script"
    assert update()[0] == 0 and "is up to date" in update()[1]


def failing(number, writes):
    """An `open` whose files take half of what is written, and then no more."""
    left = iter(range(writes))

    def opened(path, mode):
        file = open(path, mode)
        if next(left, None) is None:
            file.write(b"half")
            file.close()
            raise OSError(number, os.strerror(number))
        return file

    return opened


def no_part_of_a_file(work):
    hidden = {name for name in tree(work) if Path(name).name.startswith(".")}
    return hidden <= {".course.json"}


def test_a_folder_that_cannot_be_made(course, update, monkeypatch):
    def mkdir(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(folder.Path, "mkdir", mkdir)
    assert "Permission denied" in refused(update)


@pytest.mark.parametrize("steps", range(4))
def test_an_interruption_loses_nothing(committed, work, update, monkeypatch, steps):
    update()
    answered(work / EXERCISE, answer="mine")
    put(committed, SECOND)
    left, do = iter(range(steps)), folder.Folder.do

    def interrupted(self, step):
        if next(left, None) is None:
            raise KeyboardInterrupt
        do(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(folder.Folder, "do", interrupted)
        assert update()[0] == 130
    assert no_part_of_a_file(work)
    assert "mine" in sources(json.loads((work / EXERCISE).read_bytes()))
    assert update()[0] == 0
    assert (work / LESSON).read_bytes() == data(
        notebooks.clear(json.loads(SECOND[LESSON].data))
    )
    assert sources(json.loads((work / EXERCISE).read_bytes()))[2] == "mine"


def test_what_was_saved_meanwhile_is_left_alone(committed, work, update, monkeypatch):
    update()
    put(committed, SECOND)
    git(committed, "commit", "-qam", "second")
    planned = command.Update

    def slow(*args):
        plan = planned(*args)
        (work / SCRIPT).write_text("mine")
        return plan

    monkeypatch.setattr(command, "Update", slow)
    assert "was saved meanwhile" in refused(update)
    assert (work / SCRIPT).read_text() == "mine"


def test_two_calls_at_once_do_it_once(course, work):
    update_all = [["work"]] * 4
    with ThreadPoolExecutor() as pool:
        assert [*pool.map(main, update_all)] == [0] * 4
    put(course, SECOND)
    (work / EXERCISE).write_text("half")
    with ThreadPoolExecutor() as pool:
        assert [*pool.map(main, update_all)] == [0] * 4
    assert [n for n in tree(work) if "damaged" in n] == [f"{EXERCISE}.damaged"]
    assert no_part_of_a_file(work)


NOTES = {
    "missing": None,
    "empty": "",
    "cut": '{"v": 1, "fi',
    "a list": "[]",
    "of a newer version": '{"v": 2, "files": {}}',
    "without files": '{"v": 1}',
    "with other keys": '{"v": 1, "files": {"a": {"hash": "1"}}}',
    "with other values": '{"v": 1, "files": {"a": {"words": 1, "seen": "2"}}}',
    "with cells of another kind": '{"v": 1, "files": {"a": {"words": "", "seen": "",'
    ' "cells": [1]}}}',
    "with a path out": '{"v": 1, "files": {"../../a": {"words": "1", "seen": "2"}}}',
    "with no path": '{"v": 1, "files": {"": {"words": "1", "seen": "2"}}}',
    "too deep": "[" * 200_000,
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_without_a_note_that_can_be_read_nothing_is_lost(course, work, update, note):
    update()
    answered(work / EXERCISE, answer="mine")
    (work / ".course.json").unlink()
    if note is not None:
        (work / ".course.json").write_text(note)
    put(course, SECOND)
    status, printed = update()
    assert status == 0
    assert "There was no note of what you were given" in printed
    texts = sources(json.loads((work / EXERCISE).read_bytes()))
    assert {"mine", *ALL_NEW} - set(texts) == {"new stub"}
    assert (work / SCRIPT).read_text() == "print(1)"
    assert "is up to date" in update()[1]


# the course itself


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A copy of this course."""
    path = tmp_path_factory.mktemp("learner") / "work"
    assert main(["work", str(path)]) == 0
    return path


def test_the_copy_of_this_course_has_no_outputs_but_those_of_solutions(whole):
    for path in [*whole.glob("notebooks/*.ipynb"), *whole.glob("exercises/*.ipynb")]:
        code = [c for c in json.loads(path.read_bytes())["cells"] if "outputs" in c]
        assert code and not any(one["outputs"] for one in code)
    solution = next(whole.glob("solutions/*.ipynb"))
    assert (
        solution.read_bytes()
        == (command.ROOT / "solutions" / solution.name).read_bytes()
    )


def test_every_relative_link_of_the_copy_leads_somewhere_in_it(whole):
    found = [
        link
        for kind in ("*.ipynb", "*.md")
        for page in sorted(whole.rglob(kind))
        if page.parent.name != "benchmarks"  # they link to what makes them
        for link in pages.links(page)
    ]
    assert {link.page.suffix for link in found} == {".ipynb", ".md"}
    outside = [link for link in found if not link.target.is_relative_to(whole)]
    missing = [link for link in found if not link.target.exists()]
    assert [*map(_shown, [*outside, *missing])] == []


def _shown(link):
    return f"{link.page}: {link.target}"


def test_exercises_of_this_course_are_as_they_were_released():
    exercises = sorted((command.ROOT / "exercises").glob("*.ipynb"))
    assert exercises
    for path in exercises:
        assert notebooks.is_released(json.loads(path.read_bytes())), path


def test_it_imports_nothing_that_takes_seconds(whole):
    code = "import sys; from course_lib.__main__ import main"
    code += f"; main(['work', {str(whole)!r}])"
    code += "; print({'torch', 'numpy', 'nbformat'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "is up to date" in done.stdout and done.stdout.endswith("set()\n")


@pytest.mark.parametrize("name", ["notebooks", "exercises"])
def test_progress_is_kept_beside_the_exercises_of_the_copy(whole, monkeypatch, name):
    monkeypatch.chdir(whole / name)
    assert progress._home() == whole / "exercises"
