"""Folders show the architecture, and the package stays small."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter

import pytest

import course_lib
from course_lib.exercises import observe
from tests import layers

MODULES = layers.modules()
FOLDERS = sorted({module.rpartition(".")[0] for module in MODULES} - {""})
# what is not the core
_AROUND = ("scenes", "clusters", "exercises", "lessons", "workspace")
_AROUND += ("authoring", "grading")
# lines of code, without comments and docstrings; a new capability raises its budget in
# its own commit, with the reason
BUDGETS = {
    # what ranks send, by messages, at sockets and in rounds: 290; schedules of
    # collectives as plain data: 220; their costs by α and β: 195; several nodes, by
    # agents of torchrun with host names of their own: 360
    "core": 9_010,
    # who a rank is under six launchers, with their commands and two kinds of job
    # scripts: 450; a model of scaling, and 1,024 fake ranks: 280
    "clusters": 740,
    # frames as data; some 120 lines for each thing that is shown, with what it refuses
    "scenes": 2_660,
    # stage 08: launchers and their commands, a restart, an efficiency: 510
    "exercises": 5_510,
    "lessons": 420,
    # three versions of a cell, git, files written whole, links, locks
    "workspace": 580,
    # what learners hand in lies in work/, too; figures are stale if what draws them is
    "grading and authoring": 3_970,
}


def test_everything_in_the_package_has_its_place_in_the_order():
    assert set(map(layers.top, MODULES)) - {""} == set(layers.ORDER)


def test_imports_between_folders_run_one_way():
    assert layers.backward() == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_within_a_folder_run_one_way(folder):
    layers.in_order(folder)  # raises if they go in a circle


@pytest.mark.parametrize("module", sorted(set(MODULES) - {""}))
def test_no_module_imports_the_face_of_the_package(module):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    plain, members = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            plain += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "course_lib":
            members += [alias.name for alias in node.names]
    assert "course_lib" not in plain
    assert set(members) <= set(MODULES)


def test_a_class_name_occurs_once_in_the_package():
    names = Counter(
        node.name
        for module, path in MODULES.items()
        if not module.startswith("exercises.stages.")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_picture_of_the_layers_is_that_of_today():
    drawn = layers.PICTURE.read_text(encoding="utf-8")
    assert drawn == layers.picture(), "draw it again: make layers"


def test_the_package_keeps_to_its_budgets(record_property):
    counts = dict.fromkeys(BUDGETS, 0)
    for module, path in MODULES.items():
        folder = layers.top(module)
        part = "core" if folder not in _AROUND else "grading and authoring"
        part = folder if folder in BUDGETS else part
        counts[part] += layers.code_lines(path)
    words = (f"{part} {counts[part]:,} of {BUDGETS[part]:,}" for part in BUDGETS)
    record_property("summary", f"lines of code: {', '.join(words)}")
    assert all(counts[part] <= BUDGETS[part] for part in BUDGETS), counts


@pytest.mark.parametrize("name", course_lib.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    value = getattr(course_lib, name)
    assert name in dir(course_lib)
    assert value.__doc__


def test_no_folder_has_the_name_of_something_public():
    # once such a folder is imported, Python would find it in place of the other
    assert not set(layers.ORDER) & set(course_lib.__all__)


def test_an_unknown_name_is_refused_as_everywhere():
    with pytest.raises(AttributeError, match="has no attribute 'lunch'"):
        _ = course_lib.lunch


CHANGES = layers.ROOT / "CHANGELOG.md"
RENAMED = dict(re.findall(r"^  \| `(\w+)` \| (.+) \|$", CHANGES.read_text(), re.M))


@pytest.mark.parametrize(("old", "new"), RENAMED.items(), ids=list(RENAMED))
def test_an_old_public_name_raises_a_sentence_that_says_the_new_one(old, new):
    assert not hasattr(course_lib, old) and old not in course_lib.__all__
    with pytest.raises(AttributeError) as caught:
        getattr(course_lib, old)
    assert str(caught.value) == f"{old} is now {new.strip('`')}"
    (shown,) = caught.value._render_traceback_()
    assert "RenamedError" in shown and str(caught.value) in shown


@pytest.mark.parametrize("new", [new for new in RENAMED.values() if new[0] == "`"])
def test_what_an_old_public_name_is_now_is_there(new):
    module, _, name = f"course_lib.{new.strip('`')}".rpartition(".")
    module = module.removeprefix("course_lib.") if "." in module else module
    assert getattr(importlib.import_module(module), name).__doc__


def test_the_table_of_changes_has_all_renamed_names():
    assert RENAMED.keys() == course_lib._RENAMED.keys()


def test_the_face_is_small():
    plots = [name for name in course_lib.__all__ if name.startswith("plot_")]
    assert len(course_lib.__all__) <= 30 and len(plots) <= 10


def test_a_rank_of_a_check_imports_no_matplotlib():
    lines = "\n".join(f"import {name}" for name in observe.names())
    loaded = "[name in sys.modules for name in ('torch', 'matplotlib')]"
    assert printed(f"{lines}\nimport sys; print({loaded})") == "[True, False]\n"


def test_importing_the_package_imports_neither_torch_nor_matplotlib():
    loaded = "{'torch', 'matplotlib'} & set(sys.modules)"
    assert printed(f"import course_lib, sys; print({loaded})") == "set()\n"


def printed(code):
    """What a new Python prints that runs this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout
