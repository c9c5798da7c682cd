"""What the last lines of a test run say of the fault table."""

from tests.fault_table import Fault, lines

FAULTS = {
    "a": Fault(1, "raises"),
    "b": Fault(1, "exits"),
    "c": Fault(2, "uses a GPU"),
    "d": Fault(2, "is killed"),
}


def test_a_row_passes_when_all_its_faults_do():
    ends = dict.fromkeys("abcd", "passed")
    assert list(lines(FAULTS, ends)) == [
        "fault table: 2 of 10 rows, 4 of 4 faults passed"
    ]


def test_a_fault_that_did_not_pass_is_named_and_its_row_does_not_count():
    ends = dict.fromkeys("abcd", "passed") | {"b": "failed"}
    head, row = lines(FAULTS, ends)
    assert head == "fault table: 1 of 10 rows, 3 of 4 faults passed"
    assert row == "  row 1: failed: exits"


def test_a_fault_that_this_machine_cannot_cause_is_named():
    ends = dict.fromkeys("abd", "passed") | {"c": "skipped"}
    head, row = lines(FAULTS, ends)
    assert head == "fault table: 2 of 10 rows, 3 of 3 faults passed"
    assert row == "  row 2: skipped: uses a GPU"


def test_a_row_that_was_only_skipped_does_not_count():
    head, *_ = lines({"c": FAULTS["c"]}, {"c": "skipped"})
    assert head == "fault table: 0 of 10 rows, 0 of 0 faults passed"


def test_a_fault_that_was_left_out_is_named():
    head, row = lines(FAULTS, dict.fromkeys("acd", "passed"))
    assert head == "fault table: 1 of 10 rows, 3 of 4 faults passed"
    assert row == "  row 1: not run: exits"
