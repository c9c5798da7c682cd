"""`make versions`: what it tries, how it reads what was said, the table it keeps."""

import pytest

from tests import versions

_REPORT = (
    '<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="9"'
    ' tests="100"></testsuite></testsuites>'
)
_HEAD = "| torch | Python | date | probes | passed | failed | skipped |\n"
_PAGE = f"before\n\n{_HEAD}|---|---|---|--:|--:|--:|--:|\n\nafter | 2.11.0 |\n"


def test_the_ends_are_the_oldest_of_the_range_and_the_pinned_one():
    assert versions.ends() == ["2.11.0", versions.pinned()]
    assert versions.pinned() in ("2.14.1", "2.15.0")


def test_outcomes_are_counted_from_the_report():
    tried = versions.told("2.12.0", "x\n59 of 60 probes hold with torch 2\n", _REPORT)
    assert tried == versions.Tried("2.12.0", "59 of 60", 88, 3, 9)
    assert not versions.held(tried.probes) and versions.held("60 of 60")


def test_without_probes_there_is_no_row():
    with pytest.raises(SystemExit, match=r"torch 2\.12\.0: the probes did not end"):
        versions.told("2.12.0", "no word of them", _REPORT)


def test_a_row_takes_the_place_of_the_one_of_the_same_versions():
    page = _PAGE
    rows = [
        "| 2.15.0 | 3.11.7 | 2026-11-26 | 60 of 60 | 6,750 | 0 | 9 |",
        "| 2.11.0 | 3.11.7 | 2026-11-26 | 60 of 60 | 6,700 | 27 | 9 |",
        "| 2.11.0 | 3.9.1 | 2026-11-26 | 60 of 60 | 1 | 0 | 9 |",
        "| 2.11.0 | 3.11.9 | 2026-11-27 | 60 of 60 | 6,750 | 0 | 9 |",
    ]
    for row in rows:
        page = versions.with_row(page, row)
    table = "\n".join([rows[2], rows[3], rows[0]])
    head, tail = _PAGE.split("\n\nafter")
    assert page == f"{head}\n{table}\n\nafter{tail}"


def test_the_page_has_a_row_for_both_ends_in_which_nothing_failed():
    text = versions.PAGE.read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| 2.")]
    good = {row[0].strip("| ") for row in rows if row[5] == "0"}
    assert {"2.11.0", "2.15.0"} <= good and len(rows[0]) == len(versions.HEADS)
