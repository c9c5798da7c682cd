"""The table of docs/faults.md: which of its rows the tests caused, and which passed.

A test is entered by `@pytest.mark.fault(row, "what it causes")`.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

ROWS = 10
_collected = pytest.StashKey[dict]()


class Fault(NamedTuple):
    """One fault: its row in the table and what is caused."""

    row: int
    what: str


def case(row, what, *values):
    """One line of a parametrized test that stands in the table."""
    return pytest.param(*values, marks=pytest.mark.fault(row, what), id=what)


def collect(config, items):
    """Note the tests of the table; each also is one of the marker `faults`."""
    faults = config.stash.setdefault(_collected, {})
    for item in items:
        mark = item.get_closest_marker("fault")
        if mark:
            faults[item.nodeid] = Fault(*mark.args)
            item.add_marker("faults")
    # a worker tells it to the process that writes the summary
    if hasattr(config, "workeroutput"):
        config.workeroutput["faults"] = {k: list(v) for k, v in faults.items()}


def receive(config, output):
    """Take in what a worker collected."""
    faults = config.stash.setdefault(_collected, {})
    faults.update({k: Fault(*v) for k, v in output.get("faults", {}).items()})


def summary(config, stats):
    """The lines that tell how the faults of this run went, from pytest's reports."""
    faults = config.stash.get(_collected, {})
    outcomes = {}
    for kind in ("passed", "skipped", "failed", "error"):
        names = {getattr(report, "nodeid", "") for report in stats.get(kind, [])}
        outcomes |= dict.fromkeys(faults.keys() & names, kind)
    return lines(faults, outcomes) if outcomes else []


def lines(faults, outcomes):
    """How many rows and faults passed; a line for each row of which some did not.

    A row passes when all that this machine can cause passed; what it cannot is named.
    """
    rows = defaultdict(list)
    for test, fault in faults.items():
        rows[fault.row].append((fault.what, outcomes.get(test, "not run")))
    whole = sum(
        {end for _, end in ends} - {"skipped"} == {"passed"} for ends in rows.values()
    )
    count = Counter(outcomes.values())
    caused = len(faults) - count["skipped"]
    head = f"{whole} of {ROWS} rows, {count['passed']} of {caused} faults passed"
    yield f"fault table: {head}"
    for row, ends in sorted(rows.items()):
        if missing := _missing(ends):
            yield f"  row {row}: {missing}"


def _missing(ends):
    """What of a row did not pass, by the way it ended."""
    by_end = defaultdict(list)
    for what, end in ends:
        by_end[end].append(what)
    by_end.pop("passed", None)
    return "; ".join(f"{end}: {', '.join(whats)}" for end, whats in by_end.items())
