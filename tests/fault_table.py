"""The table of docs/faults.md: which of its rows the tests caused, and which passed.

A test is entered by `@pytest.mark.fault(row, "what it causes")`, one of the column for
two nodes with `nodes=2` as well.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

ROWS = 12
_collected = pytest.StashKey[dict]()


class Fault(NamedTuple):
    """One fault: its row in the table and what is caused."""

    row: int
    what: str
    nodes: int | None = None


def case(row, what, *values):
    """One line of a parametrized test that stands in the table."""
    return pytest.param(*values, marks=pytest.mark.fault(row, what), id=what)


def collect(config, items):
    """Note the tests of the table; each also is one of the marker `faults`."""
    faults = config.stash.setdefault(_collected, {})
    for item in items:
        mark = item.get_closest_marker("fault")
        if mark:
            faults[item.nodeid] = Fault(*mark.args, **mark.kwargs)
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
    if not outcomes:
        return []
    if config.option.run:  # make test or make proof: the other one causes the rest
        faults = {test: fault for test, fault in faults.items() if test in outcomes}
    return lines(faults, outcomes, run=config.option.run)


def lines(faults, outcomes, *, run=None):
    """How many rows and faults passed; a line for each row of which some did not.

    A row passes when all that this machine can cause passed; what it cannot is named.
    """
    rows, nodes = defaultdict(list), defaultdict(list)
    for test, fault in faults.items():
        end = (fault.what, outcomes.get(test, "not run"))
        for table in (rows, nodes) if fault.nodes else (rows,):
            table[fault.row].append(end)
    count = Counter(outcomes.values())
    caused = len(faults) - count["skipped"]
    of = len(rows) if run == "proof" else ROWS
    head = f"{_whole(rows)} of {of} rows, {count['passed']} of {caused} faults passed"
    head += f"; on two nodes {_whole(nodes)} of {len(nodes)} rows" if nodes else ""
    yield f"fault table: {head}"
    for row, ends in sorted(rows.items()):
        if missing := _missing(ends):
            yield f"  row {row}: {missing}"


def _whole(rows):
    """How many of the rows passed."""
    ways = ({end for _, end in ends} for ends in rows.values())
    return sum(each - {"skipped"} == {"passed"} for each in ways)


def _missing(ends):
    """What of a row did not pass, by the way it ended."""
    by_end = defaultdict(list)
    for what, end in ends:
        by_end[end].append(what)
    by_end.pop("passed", None)
    return "; ".join(f"{end}: {', '.join(whats)}" for end, whats in by_end.items())
