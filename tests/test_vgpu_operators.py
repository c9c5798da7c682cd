"""The breadth of virtual GPUs, by the operator database of PyTorch itself."""

import json
import os
from pathlib import Path

import pytest

from tests import tables
from tests.commands import Python

ROOT = Path(__file__).parents[1]
RUN = "from tests import operators; operators.main([])"
LIMIT = 1200  # seconds for all of them: 25 on a quiet machine
pytestmark = pytest.mark.timeout(LIMIT)

# name -> why it cannot agree; one that agrees after all has to leave this list
KNOWN = {
    "sparse.sampled_addmm": "takes a sparse tensor, and virtual GPUs hold dense ones",
    "sparse.mm.reduce": "takes a sparse tensor, and virtual GPUs hold dense ones",
    "to_sparse": "gives a sparse tensor, and virtual GPUs hold dense ones",
    "tensor_split": "takes its indices from the CPU only, on CUDA, too",
}
# the CPU cannot run these, so there is nothing to compare with
CUDA_ONLY = {
    "jiterator_unary",
    "jiterator_binary",
    "jiterator_4inputs_with_extra_args",
    "jiterator_binary_return_by_ref",
    "jiterator_2inputs_2outputs",
}


@pytest.fixture(scope="module")
def results():
    """Of each operator how far it agrees and what disagrees, by another process."""
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    process = Python(RUN, cwd=ROOT, env=env)
    out, err = process.communicate(LIMIT)
    rows = [json.loads(row) for row in out.splitlines() if row[:1] == "["]
    last = rows[-1][0] if rows else "none"
    ended = f"the process ended in operator {last}: {err[-2000:]}"
    assert process.poll() == 0, ended
    return {row[0]: row[1:] for row in rows if len(row) == 3}


def test_the_table_tells_what_comes_out(results):
    table = tables.read("operators")["rows"]
    reached = {name: row[0] for name, row in results.items()}
    assert reached == {name: row[0] for name, row in table.items()}, (
        "docs/virtual-gpus.md tells other numbers: make operators, then make pages"
    )


def defined(results):
    """The operators whose values are defined and known on the CPU."""
    rows = results.items()
    return {k: v for k, v in rows if "empty" not in k and k not in CUDA_ONLY}


def test_99_percent_of_the_operators_agree_forward_and_backward(
    results, record_property
):
    rows = defined(results)
    agree = [name for name, (reached, _) in rows.items() if reached]
    backward = [name for name in agree if rows[name][0] == "backward"]
    share = len(agree) / len(rows)
    rest = "; ".join(f"{n}: {KNOWN.get(n, rows[n][1])}" for n in rows if n not in agree)
    record_property(
        "summary",
        f"operators on a virtual GPU: {len(agree)} of {len(rows)} agree with the CPU"
        f" ({share:.1%}), {len(backward)} of them backward, too. The rest: {rest}",
    )
    assert len(rows) > 600 and len(backward) > 500
    assert share >= 0.99


def test_every_operator_that_disagrees_is_known_with_its_reason(results):
    rows = defined(results)
    strange = {n: why for n, (reached, why) in rows.items() if not reached}
    assert {n: why for n, why in strange.items() if n not in KNOWN} == {}


def test_no_operator_is_called_known_that_agrees_by_now(results):
    assert [name for name in KNOWN if results[name][0]] == []


def test_memory_without_numbers_has_the_shape_that_was_asked_for(results):
    rows = {name: row for name, row in results.items() if "empty" in name}
    assert len(rows) >= 6
    assert {name: why for name, (reached, why) in rows.items() if not reached} == {}


def test_only_operators_of_cuda_are_compared_with_nothing(results):
    nothing = {name for name, (reached, _) in results.items() if reached == "nothing"}
    assert nothing == CUDA_ONLY
