"""Each number in the text of a lesson comes from a cell, a table or a source."""

import pytest

from tests import origins

LESSONS = dict(origins.lessons())


def notebook(text, *cells):
    """One text cell, and code cells (code, what it printed)."""
    rows = [{"id": "text", "cell_type": "markdown", "source": text}]
    for place, (code, printed) in enumerate(cells):
        output = {"output_type": "stream", "text": printed}
        row = {"id": f"code-{place}", "cell_type": "code", "source": code}
        rows.append({**row, "outputs": [output]})
    return {"cells": rows}


def homeless(text, *cells):
    return [number.written for number in origins.homeless(notebook(text, *cells), "0")]


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_number_comes_from_a_cell_a_table_or_a_source(lesson):
    found = LESSONS[lesson]
    wrong = (origins.origin(one, found) for one in origins.homeless(found, lesson))
    assert not list(filter(None, wrong))


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_table_has_lines_of_numbers_that_stand_in_its_lesson_only(lesson):
    table = origins.table(lesson)
    said = {(cell, number) for cell in table.sections() for number in table[cell]}
    texts = origins.numbers(LESSONS[lesson], lesson)
    assert not said - {(number.cell, number.written) for number in texts}


def test_there_are_tables_of_lessons_only():
    assert {path.stem for path in origins.TABLES.iterdir()} <= set(LESSONS)


@pytest.mark.parametrize(
    "text", ["It takes 17.1 MB.", "17.1 MB in all", "a third, 33 %", "| 17.10 | x |"]
)
def test_a_number_that_a_cell_near_by_shows_is_at_home(text):
    assert not homeless(text, ("x = 17.1", "0.3333"))


def test_rounded_is_at_home_and_nothing_else():
    assert homeless("33.6 or 33.5 or 33 or 34 GB", ("", "33.554")) == ["33.5", "33"]


def test_a_short_number_must_come_from_near_by_and_a_long_one_from_the_lesson():
    far = [("pass", "")] * 9 + [("", "57 and 1,797")]
    assert homeless("57 of 1,797", *far) == ["57"]


@pytest.mark.parametrize(
    "text",
    [
        "three of 12 ranks",
        "lesson 06b, exercise 4.13",
        "(Kurth et al. 2018)",
        "`x[99]` in [a link](99.html)",
        "a number of 32 bits",
    ],
)
def test_counts_lessons_years_and_code_need_no_origin(text):
    assert not homeless(text)


@pytest.mark.parametrize("text", ["13 ranks", "12 %", "7 ms", "2.5 times", "in 3 GB"])
def test_a_number_with_a_unit_or_above_twelve_needs_one(text):
    assert len(homeless(text)) == 1


ORIGINS = {
    "is 2**20": True,
    "is 2**21": False,
    "cites Kurth 2018": True,
    "cites Goyal 2017": False,
    "cell code-0": True,
    "cell code-1": False,
    "file pyproject.toml": False,
    "": False,
}


@pytest.mark.parametrize("said", ORIGINS)
def test_what_the_table_says_is_looked_up(said, monkeypatch):
    parser = origins.ConfigParser(delimiters="=")
    parser.read_dict({"text": {"1,048,576": said} if said else {}})
    monkeypatch.setattr(origins, "table", lambda _: parser)
    text = "1,048,576 bytes (Kurth et al. 2018)"
    found = notebook(text, ("", "1048576"), ("", "2"))
    (number,) = origins.numbers(found, "0")
    assert (not origins.origin(number, found)) == ORIGINS[said]


def test_a_formula_is_of_numbers():
    with pytest.raises(ValueError, match="no formula"):
        origins._computed(origins.ast.parse("open('x')", mode="eval").body)
