"""No lesson uses a term of the glossary before it explains it."""

import pytest

from tests import terms
from tests.terms import NOWHERE, Cell

TERMS = terms.glossary(terms.GLOSSARY.read_text(encoding="utf-8"))
FINDINGS = terms.find(TERMS, terms.lessons())
TABLE = """
| term | also written as | meaning | lesson |
|---|---|---|---|
| lock | – | Only one holds it. | 05 |
| interpreter lock | GIL | Only one thread runs. | 03 |
| all-reduce | `all_reduce` | A sum. | 00 |
| stage (of a pipeline) | pipeline stage | A part. | 01 |
"""


def cell(source, lesson="01", name="text"):
    return Cell(lesson, name, *terms.prose(source))


def finding(name, *sources):
    found = terms.find(terms.glossary(TABLE), [cell(source) for source in sources])
    return next(one for one in found if one.term.name == name)


def places(one):
    return one.used and one.used.text.strip(), one.early


def test_a_table_holds_terms_and_how_they_are_spelt():
    spellings = {term.name: term.spellings for term in terms.glossary(TABLE)}
    assert spellings == {
        "lock": ("lock",),
        "interpreter lock": ("interpreter lock", "GIL"),
        "all-reduce": ("all-reduce", "all_reduce"),
        "stage (of a pipeline)": ("pipeline stage",),
    }


def test_a_term_that_is_explained_where_it_is_used_first_is_in_order():
    one = finding("lock", "a *lock*, which one process holds", "two locks")
    assert places(one) == ("a lock, which one process holds", False)


@pytest.mark.parametrize("mark", ["*lock*", "**Lock.**", "*a lock*", "*locks*"])
def test_italics_and_bold_type_explain(mark):
    assert not finding("lock", f"Here is {mark}").early


@pytest.mark.parametrize("mark", ["lock", "`lock`", "*a lock that waits*", "*block*"])
def test_nothing_else_explains(mark):
    assert not finding("lock", f"Here is {mark}").explained


def test_a_term_that_is_used_before_it_is_explained_is_early():
    one = finding("all-reduce", "call `all_reduce` now", "An *all-reduce* adds.")
    assert one.early
    assert terms.before(one) == "all-reduce: 01 text, explained in 01 text"


def test_a_term_that_is_explained_nowhere_is_early():
    one = finding("lock", "take the lock")
    assert one.early and terms.unexplained(one) == "lock: 01 text"
    assert terms.before(one) == ""


def test_a_longer_term_is_not_the_shorter_one_within_it():
    assert places(finding("lock", "the interpreter lock")) == (None, False)
    assert finding("interpreter lock", "the interpreter lock").early


@pytest.mark.parametrize(
    "source", ["```python\nlock = 1\n```", "block, locked, a lock-free way", "Stage 04"]
)
def test_code_other_words_and_numbers_of_lessons_are_no_uses(source):
    found = terms.find(terms.glossary(TABLE), [cell(source)])
    assert [one.used for one in found] == [None] * 4


def test_tables_folds_and_headings_are_prose():
    source = (
        "## A lock\n\n| a | b |\n|---|---|\n| GIL | all-reduce |\n\n"
        "<details><summary>pipeline stages</summary>\n\nend\n\n</details>"
    )
    found = terms.find(terms.glossary(TABLE), [cell(source)])
    assert all(one.used for one in found)


def test_titles_and_maps_are_no_prose():
    text = {"cell_type": "markdown", "source": "lock"}
    rows = [{"id": name, **text} for name in ("title", "map", "next", "other")]
    rows.append({"id": "code", "cell_type": "code", "source": "lock"})
    assert [str(one) for one in terms.cells({"cells": rows}, "02")] == ["02 other"]


def test_a_term_that_is_explained_elsewhere_than_the_glossary_says_is_told():
    one = finding("lock", "a *lock*")
    assert terms.misplaced(one) == "lock: 01 text, docs/glossary.md says 05"


def test_the_words_of_a_papers_title_are_its_own():
    paper = finding("lock", "(*Optimal Lock Algorithms for Clusters*) and no other")
    assert paper.used is None
    assert finding("lock", "*only one of them has the lock*").used


def test_the_report_begins_with_what_is_to_do():
    table = terms.glossary(TABLE)
    lines = terms.report(terms.find(table, [cell("the lock")]))
    assert lines[0] == "Used before the explanation: 0"
    assert "Used, and nowhere in italics: 1" in lines and "  lock: 01 text" in lines
    assert lines[-4].split() == ["lock", "01", "text"]
    assert lines[-3].split() == ["interpreter", "lock", NOWHERE]


def test_the_glossary_is_in_the_order_of_the_alphabet_and_names_each_term_once():
    names = [term.name.lower() for term in TERMS]
    assert names == sorted(set(names))
    spellings = [word.lower() for term in TERMS for word in term.spellings]
    assert len(spellings) == len(set(spellings)) and len(TERMS) >= 60


@pytest.mark.parametrize("term", TERMS, ids=[term.name for term in TERMS])
def test_a_meaning_is_one_to_three_short_sentences(term):
    sentences = term.meaning.split(". ")
    assert term.meaning.endswith(".") and len(sentences) <= 3
    assert all(len(sentence.split()) <= 26 for sentence in sentences)


@pytest.mark.parametrize("task", terms.TASKS)
def test_lessons_explain_each_term_before_they_use_it(task):
    assert not list(filter(None, map(terms.TASKS[task], FINDINGS)))
