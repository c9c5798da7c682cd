"""Lesson 05, and answers with processes, where forkserver is the default.

So it is from Python 3.14 on. In `PYTHONPATH` `tests/forkserver` makes an older Python
alike. Answers that name no start method are judged as ever.
"""

import multiprocessing
import os
import subprocess
import sys

import pytest

import course_lib as cl
from course_lib.launching import client
from tests import answers, forked
from tests.checking import ROOT, outcome
from tests.test_checks import IN_RANKS, assert_right, assert_wrong, each

FORKSERVER = str(ROOT / "tests/forkserver")


def with_processes(given):
    """The answers that start some, or are given what others send."""
    return [
        answer
        for answer in given
        if answer.exercise in IN_RANKS or "num_workers" in answer.source
    ]


@pytest.fixture(scope="module", autouse=True)
def later_python():
    """A server of its own starts the launches, which reads the variable."""
    with pytest.MonkeyPatch.context() as patch, forked.starting():
        patch.setenv("PYTHONPATH", FORKSERVER)
        yield
    client.close_server()


def test_ranks_have_the_default_of_python_3_14():
    def default(rank, world_size):
        return multiprocessing.get_start_method()

    assert list(cl.launch(default, world_size=1)) == ["forkserver"]


@each(with_processes(answers.right()))
def test_a_right_answer_is_right(answer):
    assert_right(answer, outcome(answer.exercise, answer.source))


@each(with_processes(answers.wrong()))
def test_a_wrong_answer_gets_its_hint(answer):
    found = outcome(answer.exercise, answer.source, timeout=answer.slow)
    assert_wrong(answer, found)


def test_the_lesson_goes_on_as_its_text_does():
    lesson = ROOT / "notebooks/05_shared_tensors.ipynb"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--color=no", "-p", "no:xdist", lesson],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": FORKSERVER},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
