"""Nested transforms of PyTorch's operators and modules, all of them."""

import sys
from collections import Counter

import pytest

from tests import nestings, tables

LIMIT = 2400  # seconds for all cases: 70 on a quiet machine
pytestmark = pytest.mark.timeout(LIMIT)

# what a virtual GPU refuses and the CPU does not -> why; what agrees has to leave
_WRAPPED = "vmap makes a number a tensor of the device, which Python cannot be handed"
KNOWN = {
    "addbmm_": "the CPU's grows what it is written to, which no operator should do",
    "linspace.tensor_overload": _WRAPPED,
    "logspace.tensor_overload": _WRAPPED,
    "tensor_split": "takes its indices from the CPU only, on CUDA, too",
}
CRASH, HANG = "ended the process", "hangs"


@pytest.fixture(scope="module")
def found():
    """Counts of each transform, and what came of the cases that do not agree."""
    with pytest.MonkeyPatch.context() as env:
        env.setenv("CUDA_VISIBLE_DEVICES", "")
        return nestings.table(nestings.run_all())


def counts(found):
    """Of each transform how often which outcome came."""
    return {name: row for name, row in found.items() if isinstance(row, dict)}


def odd(found):
    """Subject, outcome and reason of the cases that do not agree."""
    rows = ((name, row) for name, row in found.items() if not isinstance(row, dict))
    return [(name.partition(": ")[0], *row) for name, row in rows]


def outcomes(found):
    """The counts of each transform, and the outcome of each case that disagrees."""
    rows = found.items()
    return {name: row if isinstance(row, dict) else row[0] for name, row in rows}


def test_the_table_tells_what_comes_out(found):
    table = tables.read("nestings")["rows"]
    assert outcomes(found) == outcomes(table), (
        "docs/virtual-gpus.md tells other numbers: make nestings, then make pages"
    )


def test_no_case_ends_the_process_or_hangs_or_gives_other_numbers(
    found, record_property
):
    rows = counts(found).values()
    total = sum(sum(row.values()) for row in rows)
    equal = sum(row["equal"] for row in rows)
    kinds = Counter(kind for _, kind, _ in odd(found))
    parts = [f"{number} {kind}" for kind, number in sorted(kinds.items())]
    record_property(
        "summary",
        f"nested transforms on a virtual GPU: {equal} of {total} cases equal the CPU's;"
        f" {', '.join(parts)}",
    )
    assert total > 10_000 and len(rows) == 12
    assert equal / total > 0.8
    assert [row for row in odd(found) if row[1] in (CRASH, HANG, "differs")] == []


def test_every_case_that_is_refused_is_known_with_its_reason(found):
    refused = {name for name, kind, _ in odd(found) if "device" in kind}
    assert refused == set(KNOWN)


CHILD = """
import json, os, sys, time
for name in sys.argv[1:]:
    for transform in ("jvp", "vjp"):
        if ": " in name and not name.endswith(": " + transform):
            continue
        case = [name.partition(": ")[0], transform]
        print(json.dumps(case), flush=True)
        if case == ["worse", "jvp"]:
            os.abort()
        if case == ["slow", "vjp"]:
            time.sleep(60)
        print(json.dumps([*case, "equal", ""]), flush=True)
"""


def test_a_case_that_ends_its_process_is_known_and_the_others_are_run(monkeypatch):
    monkeypatch.setattr(nestings, "CHILD", (sys.executable, "-c", CHILD))
    monkeypatch.setattr(nestings, "LIMIT", 2)
    rows = nestings.run(["good", "worse", "slow", "last"])
    kinds = {case: kind for case, (kind, _) in rows.items()}
    odd = {("worse", "jvp"): CRASH, ("slow", "vjp"): HANG}
    names = "good", "worse", "slow", "last"
    fine = {(name, way): "equal" for name in names for way in ("jvp", "vjp")}
    assert kinds == fine | odd
