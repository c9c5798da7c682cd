"""`make test` and `make proof` have all tests between them, and none twice."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest

from tests import answers, lacks, runs
from tests.test_lessons import LESSONS, ROOT

ARGS = pytest.Config.ArgsSource


@pytest.fixture
def collected(request):
    """All tests that were collected, those of the other run included."""
    items = request.config.stash[runs.COLLECTED]
    option = request.config.option
    if option.run and not option.ignore:  # else somebody named some
        files = {item.path for item in items}
        assert files >= {*ROOT.glob("tests/**/test_*.py"), *LESSONS}
    return items


def split(items, browsed):
    """The tests of both runs."""
    return [{*runs.of(run, items, browsed)} for run in runs.NAMES]


def decided(items):
    """All but the answers that neither run decides."""
    return {item for item in items if not runs.is_left_out(item)}


def test_what_make_test_leaves_out_is_in_make_proof(collected):
    test, proof = split(collected, browsed=set())
    assert test | proof == decided(collected)
    # a cell needs those before it
    late = {item.path for item in proof if runs.is_cell(item)}
    twice = {item for item in collected if runs.is_cell(item) and item.path in late}
    assert test & proof == twice - {item for item in proof if marked(item)}


def marked(item):
    return item.get_closest_marker("proof") is not None


def test_a_lesson_that_runs_in_a_browser_runs_nowhere_else(collected):
    test, proof = split(collected, browsed={*LESSONS})
    assert not test & proof
    assert not [item for item in proof if runs.is_cell(item)]
    assert test | proof >= decided(runs.of(None, collected, {*LESSONS}))


def test_each_long_lesson_has_the_cell_at_which_make_test_stops():
    ids = {
        runs.number(path): [cell.id for cell in nbformat.read(path, 4).cells]
        for path in LESSONS
    }
    assert not {name: id for name, id in runs.LATE.items() if id not in ids[name]}


def test_make_test_has_three_answers_to_each_exercise():
    kept = {(one.exercise, one.name) for one in answers.few()}
    right = [one for one in answers.right() if (one.exercise, one.name) in kept]
    exercises = {one.exercise for one in answers.right()}
    assert {one.exercise for one in right} == exercises
    assert len(right) == len(exercises) and len(kept) == 3 * len(exercises)


@pytest.mark.parametrize(
    ("named", "run"),
    [
        ({}, "proof"),
        ({"keyword": "4.5c"}, None),
        ({"markexpr": "browser"}, None),
        ({"changed": "HEAD"}, None),
        ({"args_source": ARGS.ARGS}, None),
    ],
)
def test_tests_that_are_named_run_whichever_run_they_are_in(named, run):
    source = named.pop("args_source", ARGS.TESTPATHS)
    option = SimpleNamespace(run="proof", **named)
    runs.settle(SimpleNamespace(args_source=source, ArgsSource=ARGS, option=option))
    assert option.run == run


def test_workers_run_what_is_named_too():
    one = "tests/test_changed.py::test_nothing_is_chosen_if_nothing_differs"
    command = [sys.executable, "-m", "pytest", "-n1", "--run=test", one]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert "1 passed" in said, said


def skip(file, reason):
    longrepr = (file, 1, f"Skipped: {reason}")
    return SimpleNamespace(nodeid=f"{file}::test_it", longrepr=longrepr)


def test_what_a_machine_lacks_is_one_line_with_what_installs_it(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    skips = [skip(file, "needs Chromium") for file in ("a.py", "b.py", "b.py")]
    skips += [skip("a.py", "needs MPICH"), skip("a.py", "needs lightning")]
    assert [*lacks.lines(skips)] == [
        "Chromium is not here; 3 more tests after: sudo apt-get install chromium",
        "MPICH is not here; 1 more test after: sudo apt-get install mpich",
        "lightning is not here; 1 more test after: .venv/bin/python -m pip install"
        " lightning",
    ]


def test_other_skips_are_counted_and_named():
    skips = [skip(file, "needs a GPU") for file in ("b.py", "a.py", "b.py")]
    assert [*lacks.lines(skips)] == ["skipped: 3 × needs a GPU (a.py, b.py)"]


@pytest.mark.parametrize("name", lacks.PROGRAMS)
def test_ci_installs_each_program_that_tests_need(name):
    text = (ROOT / ".ci/run").read_text()
    package = lacks.checkup.install_command(name).split()[-1]
    assert f"missing+=({package})" in text
    assert any(f"has {program}" in text for program in lacks.PROGRAMS[name])
