"""Folders show the architecture: imports run one way between them, up one list."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib

ROOT = Path(course_lib.__file__).parent
# from the ground up: each may import what stands before it, and nothing behind it
ORDER = (
    *("text", "errors", "stacks", "colors", "display", "data", "findings"),
    *("system", "accelerators", "tracing", "plots", "launching", "studies"),
    *("exercises", "checkup", "authoring", "grading"),
    "__main__",
)


def dotted(path):
    """`launching.watchdog.stall`; a package by its folder, the face as ""."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {dotted(path): path for path in ROOT.rglob("*.py")}


def imports(path):
    """The modules of the package that a module imports, at its head or inside."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            names.add(node.module)
    inner = (name.partition(".") for name in names)
    return {rest for top, _, rest in inner if top == "course_lib"} & set(MODULES)


GRAPH = {name: imports(path) for name, path in MODULES.items()}


def test_everything_in_the_package_has_its_place_in_the_order():
    assert {name.partition(".")[0] for name in MODULES} - {""} == set(ORDER)


def test_imports_between_folders_run_one_way():
    place = {name: number for number, name in enumerate(ORDER)}
    arrows = {
        (module.partition(".")[0], target.partition(".")[0])
        for module, targets in GRAPH.items()
        for target in targets
        if module and target
    }
    assert [pair for pair in arrows if place[pair[0]] < place[pair[1]]] == []


@pytest.mark.parametrize(
    "folder", sorted({module.rpartition(".")[0] for module in MODULES} - {""})
)
def test_imports_within_a_folder_run_one_way(folder):
    """Between its modules and folders, each folder taken as one."""
    graph, depth = {}, folder.count(".") + 2
    for module, targets in GRAPH.items():
        own = [name for name in targets if name.startswith(f"{folder}.")]
        if module.startswith(f"{folder}."):
            unit = ".".join(module.split(".")[:depth])
            units = {".".join(name.split(".")[:depth]) for name in own}
            graph.setdefault(unit, set()).update(units - {unit})
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", sorted(set(MODULES) - {""}))
def test_no_module_imports_the_face_of_the_package(module):
    tree = ast.parse(MODULES[module].read_text())
    plain = [
        alias.name
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for alias in n.names
    ]
    assert "course_lib" not in plain
    named = [
        alias.name
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and n.module == "course_lib"
        for alias in n.names
    ]
    assert set(named) <= set(MODULES)


@pytest.mark.parametrize("name", course_lib.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    value = getattr(course_lib, name)
    assert name in dir(course_lib)
    assert value.__doc__


def test_no_folder_has_the_name_of_something_public():
    # once such a folder is imported, Python would find it in place of the other
    assert not set(ORDER) & set(course_lib.__all__)


def test_an_unknown_name_is_refused_as_everywhere():
    with pytest.raises(AttributeError, match="has no attribute 'lunch'"):
        _ = course_lib.lunch


CHANGES = ROOT.parent / "CHANGELOG.md"
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
    checks = sorted(name for name in MODULES if name.startswith("exercises.stages."))
    imported = "\n".join(f"import course_lib.{name}" for name in checks)
    loaded = "[name in sys.modules for name in ('torch', 'matplotlib')]"
    code = f"{imported}\nimport sys; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[True, False]\n"


def test_importing_the_package_imports_neither_torch_nor_matplotlib():
    code = "import course_lib, sys; print({'torch', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
