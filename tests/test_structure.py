"""Folders show the architecture, and what a reader meets is small."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from importlinter import cli

import course_lib
from course_lib.exercises import folders
from tests import layers

MODULES = layers.modules()
# of code that readers meet: no module or function that is longer
LINES = {"module": 400, "function": 50}
# symbols of the field: how many devices, micro-batches; what goes in, where it is
SYMBOLS = {"n", "p", "m", "x", "y", "_"}


def test_imports_run_one_way(capsys):
    # what is broken, and in which line, is printed
    assert cli.lint_imports(str(layers.SETTINGS), no_cache=True, no_logo=True) == 0
    assert "4 kept" in capsys.readouterr().out


def test_what_reads_the_imports_sees_each_module():
    # it passes over a folder without __init__.py
    seen = layers.graph().modules
    assert seen == {f"course_lib.{name}".rstrip(".") for name in MODULES}


def test_a_class_name_occurs_once_in_the_package():
    names = Counter(
        node.name
        for module, path in MODULES.items()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_picture_of_the_layers_has_each_folder():
    drawn = layers.picture()
    assert all(f">{name}" in drawn for name in (*layers.ORDER[len(layers.BASE) : -1],))


def functions(path):
    """The functions of a module and their methods and inner ones."""
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


@pytest.mark.parametrize("module", MODULES)
def test_modules_and_functions_are_short(module):
    path = MODULES[module]
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES["module"]
    long = [
        node.name
        for node in functions(path)
        if node.end_lineno - node.lineno >= LINES["function"]
    ]
    assert long == []


@pytest.mark.parametrize("module", MODULES)
def test_what_others_call_and_its_parameters_have_names_of_more_than_one_letter(module):
    body = ast.parse(MODULES[module].read_text(encoding="utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    within = [node for one in classes for node in one.body]
    names = {one.name for one in classes}
    for node in [*body, *within]:
        if isinstance(node, ast.FunctionDef) and node.name[0] != "_":
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            names |= {node.name, *(one.arg for one in given)}
    assert {name for name in names if len(name) == 1} <= SYMBOLS


@pytest.mark.parametrize("name", course_lib.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    value = getattr(course_lib, name)
    assert name in dir(course_lib)
    assert value.__doc__


def test_an_editor_completes_the_public_names_and_shows_their_parameters():
    told = json.loads(
        printed(
            "import json, sys, jedi\n"
            "names = jedi.Script('import course_lib as cl; cl.').complete()\n"
            "calls = {one.name: one.get_signatures() for one in names}\n"
            "told = {n: [p.name for p in c[0].params] for n, c in calls.items() if c}\n"
            "told.update({n: [] for n, c in calls.items() if not c})\n"
            "assert not {'course_lib', 'torch'} & set(sys.modules)\n"
            "print(json.dumps(told))"
        )
    )
    public = {name: getattr(course_lib, name) for name in course_lib.__all__}
    assert public.keys() <= told.keys()
    functions = {n: f for n, f in public.items() if inspect.isfunction(f)}
    assert {name: told[name] for name in functions} == {
        name: [*inspect.signature(function).parameters]
        for name, function in functions.items()
    }


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
    lines = "\n".join(f"import {name}" for name in folders.observing())
    loaded = "[name in sys.modules for name in ('torch', 'matplotlib')]"
    assert printed(f"{lines}\nimport sys; print({loaded})") == "[True, False]\n"


def test_importing_the_package_imports_neither_torch_nor_matplotlib():
    loaded = "{'torch', 'matplotlib'} & set(sys.modules)"
    assert printed(f"import course_lib, sys; print({loaded})") == "set()\n"


def printed(code):
    """What a new Python prints that runs this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout
