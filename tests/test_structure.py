"""Folders show the architecture, and the package stays small."""

import ast
import subprocess
import sys

import pytest

import course_lib
from tests import layers

MODULES = layers.modules()
FOLDERS = sorted({module.rpartition(".")[0] for module in MODULES} - {""})
_AROUND = ("exercises", "authoring", "grading")  # what is not the core
# lines of code, without comments and docstrings; a new capability raises its budget in
# its own commit, with the reason
BUDGETS = {"core": 7_480, "exercises": 7_600, "grading and authoring": 3_900}


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


def test_the_picture_of_the_layers_is_that_of_today():
    drawn = layers.PICTURE.read_text(encoding="utf-8")
    assert drawn == layers.picture(), "draw it again: make layers"


def test_the_package_keeps_to_its_budgets(record_property):
    counts = dict.fromkeys(BUDGETS, 0)
    for module, path in MODULES.items():
        folder = layers.top(module)
        part = "core" if folder not in _AROUND else "grading and authoring"
        part = "exercises" if folder == "exercises" else part
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


def test_a_rank_of_a_check_imports_no_matplotlib():
    checks = sorted(name for name in MODULES if name.startswith("exercises.stages."))
    lines = "\n".join(f"import course_lib.{name}" for name in checks)
    loaded = "[name in sys.modules for name in ('torch', 'matplotlib')]"
    assert printed(f"{lines}\nimport sys; print({loaded})") == "[True, False]\n"


def test_importing_the_package_imports_neither_torch_nor_matplotlib():
    loaded = "{'torch', 'matplotlib'} & set(sys.modules)"
    assert printed(f"import course_lib, sys; print({loaded})") == "set()\n"


def printed(code):
    """What a new Python prints that runs this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout
