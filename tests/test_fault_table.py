"""What the last lines of a test run say of the fault table."""

import re
from pathlib import Path
from types import SimpleNamespace

from tests import fault_table, layers
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
        "fault table: 2 of 12 rows, 4 of 4 faults passed"
    ]


def test_a_fault_that_did_not_pass_is_named_and_its_row_does_not_count():
    ends = dict.fromkeys("abcd", "passed") | {"b": "failed"}
    head, row = lines(FAULTS, ends)
    assert head == "fault table: 1 of 12 rows, 3 of 4 faults passed"
    assert row == "  row 1: failed: exits"


def test_a_fault_that_this_machine_cannot_cause_is_named():
    ends = dict.fromkeys("abd", "passed") | {"c": "skipped"}
    head, row = lines(FAULTS, ends)
    assert head == "fault table: 2 of 12 rows, 3 of 3 faults passed"
    assert row == "  row 2: skipped: uses a GPU"


def test_a_row_that_was_only_skipped_does_not_count():
    head, *_ = lines({"c": FAULTS["c"]}, {"c": "skipped"})
    assert head == "fault table: 0 of 12 rows, 0 of 0 faults passed"


def test_a_fault_that_was_left_out_is_named():
    head, row = lines(FAULTS, dict.fromkeys("acd", "passed"))
    assert head == "fault table: 1 of 12 rows, 3 of 4 faults passed"
    assert row == "  row 1: not run: exits"


def test_what_the_other_run_causes_is_not_missed():
    class Config:
        stash = {fault_table._collected: FAULTS}
        option = SimpleNamespace(run="proof")

    ended = [SimpleNamespace(nodeid=name) for name in "cd"]
    told = fault_table.summary(Config, {"passed": ended})
    assert list(told) == ["fault table: 1 of 1 rows, 2 of 2 faults passed"]
    Config.option.run = None
    _, row = fault_table.summary(Config, {"passed": ended})
    assert row == "  row 1: not run: raises, exits"


def test_the_rows_of_two_nodes_are_counted_apart():
    nodes = {"e": Fault(1, "two nodes: raises", 2), "f": Fault(11, "no agent", 2)}
    ends = dict.fromkeys("abcde", "passed") | {"f": "failed"}
    head, _ = lines(FAULTS | nodes, ends)
    assert head == (
        "fault table: 2 of 12 rows, 5 of 6 faults passed; on two nodes 1 of 2 rows"
    )


MARK = re.compile(r"fault\((\d+), [^)]*nodes=2\)")


def test_the_column_for_two_nodes_names_the_rows_that_are_tested():
    table = re.findall(
        r"^\| (\d+) \|.*\| ([^|]+) \|$",
        (layers.ROOT / "docs/faults.md").read_text(),
        re.M,
    )
    assert len(table) == fault_table.ROWS
    tests = (Path(__file__).parent / "faults" / "test_11_nodes.py").read_text()
    assert {row for row, time in table if time != "–"} == set(MARK.findall(tests))
