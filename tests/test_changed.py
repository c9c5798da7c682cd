"""What `make test ARGS=--changed` chooses: the tests that depend on a file."""

from types import SimpleNamespace

import pytest

from tests import answers, changed
from tests.mutants.__main__ import mutants

TESTS = sorted(changed.ROOT.glob("tests/**/test_*.py"))
NAMES = [path.relative_to(changed.ROOT).as_posix() for path in TESTS]


def dependents(file):
    """The test files that depend on a file."""
    return {name for name in NAMES if file in changed.of_file(name)}


def item(path, **params):
    callspec = SimpleNamespace(params=params)
    return SimpleNamespace(path=changed.ROOT / path, callspec=callspec)


def test_a_module_is_needed_by_its_tests_and_by_what_starts_processes():
    found = dependents("course_lib/launching/watchdog/explain.py")
    assert {"tests/test_deadlock.py", "tests/faults/test_3_deadlock.py"} <= found
    assert "tests/test_mnist.py" not in found


def test_a_module_that_another_imports_is_needed_too():
    assert "tests/test_deadlock.py" in dependents(
        "course_lib/launching/watchdog/mismatch.py"
    )


def test_a_module_is_needed_that_holds_a_name_of_a_face():
    for name in ("dealing", "noise"):
        file = f"course_lib/scenes/{name}.py"
        assert f"tests/test_scenes_{name}.py" in dependents(file)
    assert "tests/test_scenes_buckets.py" in dependents("course_lib/scenes/buckets.py")
    assert "tests/test_scenes_dealing.py" not in dependents(
        "course_lib/scenes/noise.py"
    )


def test_a_file_that_is_read_is_needed():
    assert "tests/test_lessons.py" in dependents("notebooks/00_start_here.ipynb")
    assert "tests/test_vgpu_operators.py" in dependents("tests/tables/operators.json")
    assert "tests/test_handed_out.py" in dependents("tests/handed_out/points.json")
    assert "tests/test_clock.py" in dependents("course_lib/accelerators/links.csv")
    template = "course_lib/grading/report/templates/base.html"
    assert "tests/test_grading_reports.py" in dependents(template)


def test_an_answer_is_needed_by_its_own_test_alone():
    first, second = [one for one in answers.right() if one.exercise == "2.1"][:2]
    needed = changed.needs(item("tests/test_checks.py", answer=first))
    assert first.place in needed and second.place not in needed
    for file in (
        "e2_2/judge.py",
        "e2_2/texts.ini",
        "e2_1/mistakes.json",
    ):  # 2.1 uses 2.2
        assert f"course_lib/exercises/{file}" in needed
    assert "course_lib/exercises/e2_4/judge.py" not in needed
    assert "course_lib/exercises/e2_2/judge.py" not in changed.package()
    assert "course_lib/exercises/attempt.py" in needed
    assert "course_lib/grading/notebook/merging.py" not in needed


def test_nothing_is_chosen_if_nothing_differs(monkeypatch):
    config = SimpleNamespace(
        getoption=lambda name: "HEAD",
        hook=SimpleNamespace(pytest_deselected=lambda items: None),
    )
    items = [item("tests/test_data.py"), item("tests/test_checks.py")]
    monkeypatch.setattr(changed, "differing", lambda commit: set())
    left = list(items)
    changed.choose(config, left)
    assert left == []
    monkeypatch.setattr(changed, "differing", lambda commit: {"course_lib/data.py"})
    left = list(items)
    changed.choose(config, left)
    assert items[0] in left
    monkeypatch.setattr(changed, "differing", lambda commit: {"pyproject.toml"})
    left = list(items)
    changed.choose(config, left)
    assert left == items


def test_a_commit_that_is_none_is_an_error_of_use():
    with pytest.raises(pytest.UsageError, match="--changed: fatal"):
        changed.differing("no-such-commit")


def test_a_lesson_needs_itself_and_the_package():
    path = "notebooks/00_start_here.ipynb"
    needed = changed.needs(SimpleNamespace(path=changed.ROOT / path))
    assert {
        path,
        "course_lib/launching/launcher.py",
        "notebooks/scripts/train.py",
    } <= needed
    assert "notebooks/01_model_parallel.ipynb" not in needed


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant["name"])
def test_the_tests_that_catch_a_mutant_depend_on_its_file(mutant):
    name = mutant["tests"][0]
    if name.endswith(".ipynb"):
        assert mutant["file"] == name
    elif name != "tests/test_checks.py":
        assert name in dependents(mutant["file"])
