"""The table of timed answers: what is run for it, and what it counts."""

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from benchmarks import timed
from course_lib.lessons.guess import Outcome
from tests.test_lessons import LESSONS


def cells(**sources):
    return [SimpleNamespace(id=name, source=text) for name, text in sources.items()]


def shown(outcome):
    """The outputs of a cell that ends in an outcome."""
    return [{"data": {}}, {"data": {"text/html": outcome._repr_html_()}}]


def test_each_timed_guess_is_found_with_the_cells_that_answer_it():
    asking = 'pays = cl.guess("07c-pays", "Which?",\n     "a", unit="s", timed=True)'
    counted = 'size = cl.guess("t-size", "How much?", 1, 2)'
    found = timed.asked(
        cells(ask=asking, size=counted, model="time()", pays="pays.was(1)")
    )
    assert found == {"07c-pays": ("ask", ["model", "pays"])}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("timed", (True, "8.")), ("timed other", (False, "8.")), ("", None)],
)
def test_an_answer_is_read_off_its_card(kind, expected):
    assert timed.answer(shown(Outcome("8.", " Said.", kind=kind))) == expected


def test_a_row_counts_and_says_what_is_below_the_goals():
    quiet = [(True, "8.4, nearest to 8.")] * 18 + [(False, "3.")] * 2
    loaded = [(True, "8.")] * 8 + [(False, "3.")] * 2
    row = timed._row("t-speed", quiet, loaded)
    assert row == ["t-speed", "8", "18 of 20, BELOW", "8 of 10", "3. (4)"]


def test_a_load_keeps_cores_busy_and_ends():
    with timed._busy(2) as loops:
        assert all(loop.poll() is None for loop in loops)
    assert all(loop.poll() is not None for loop in loops)


def test_what_ran_before_is_told():
    assert timed._before(1.2) == "Before the rounds the cores were 1 % busy."
    assert "nothing was quiet" in timed._before(60.0)


def test_the_table_has_a_row_for_each_timed_guess():
    text = Path(timed.__file__).with_suffix(".md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d[a-z]?-[a-z]+) \|", text, re.M)
    notebooks = (nbformat.read(path, as_version=4) for path in LESSONS)
    assert rows == [
        name for notebook in notebooks for name in timed.asked(notebook.cells)
    ]
