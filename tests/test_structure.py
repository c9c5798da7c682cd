"""The package is flat, its imports run one way, and its public names are there."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib

ROOT = Path(course_lib.__file__).parent


def dotted(path):
    """`checks.stage04.shards`; a package by its folder."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


MODULES = {dotted(path): path for path in ROOT.rglob("*.py")}


def imports(path):
    """The modules of the package that a module imports, at its head or inside."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("course_lib"):
            home = node.module.removeprefix("course_lib").lstrip(".")
            found |= {home, *(f"{home}.{a.name}".lstrip(".") for a in node.names)}
    return found & set(MODULES)


def test_imports_run_one_way():
    graph = {name: imports(path) for name, path in MODULES.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("timeline") < order.index("recorder") < order.index("launcher")


@pytest.mark.parametrize("name", course_lib.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    value = getattr(course_lib, name)
    assert name in dir(course_lib)
    assert value.__doc__


def test_an_unknown_name_is_refused_as_everywhere():
    with pytest.raises(AttributeError, match="has no attribute 'lunch'"):
        _ = course_lib.lunch


def test_a_rank_of_a_check_imports_no_matplotlib():
    checks = sorted(name for name in MODULES if name.startswith("checks."))
    imported = "\n".join(f"import course_lib.{name}" for name in checks)
    found = "[name in sys.modules for name in ('torch', 'matplotlib')]"
    code = f"{imported}\nimport sys; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[True, False]\n"


def test_importing_the_package_imports_neither_torch_nor_matplotlib():
    code = "import course_lib, sys; print({'torch', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
