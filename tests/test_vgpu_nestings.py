"""Nested transforms of PyTorch's operators and modules: what the table says of them."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests import tables
from tests.commands import Python

ROOT = Path(__file__).parents[1]
RUN = """
import sys
from tests import nestings
nestings.child(nestings.part(int(sys.argv[1]), *sys.argv[2:]))
"""

# what a virtual GPU refuses and the CPU does not -> why; what agrees has to leave
_NO_KERNEL = "CUDA's operator for it is one that the CPU lacks"
_WRAPPED = "vmap makes a number a tensor of the device, which Python cannot be handed"
KNOWN = {
    "nn.GRU": _NO_KERNEL,
    "nn.GRUCell": _NO_KERNEL,
    "nn.LSTM": _NO_KERNEL,
    "nn.LSTMCell": _NO_KERNEL,
    "addbmm_": "the CPU's grows what it is written to, which no operator should do",
    "linspace.tensor_overload": _WRAPPED,
    "logspace.tensor_overload": _WRAPPED,
    "tensor_split": "takes its indices from the CPU only, on CUDA, too",
}
# right today, and wrong once: whatever fails and is mended comes here
FAILED_ONCE = {
    *("_softmax_backward_data", "matmul", "mul", "nn.CrossEntropyLoss", "nn.KLDivLoss"),
    *("nn.LayerNorm", "nn.Linear", "nn.MarginRankingLoss", "nn.functional.prelu"),
    *("nn.functional.feature_alpha_dropout.with_train", "nn.functional.gelu", "sin"),
    *("nn.functional.multilabel_soft_margin_loss", "cumprod", "new_empty_strided"),
}
EVERY = 24  # of the others this part is run each time
CRASH, HANG = "ended the process", "hangs"
AGREE = "equal", "refused on both", "nothing to compare"


def results():
    """Counts of each transform, and what came of the cases that do not agree."""
    rows = tables.read("nestings")["rows"]
    counts = {name: row for name, row in rows.items() if isinstance(row, dict)}
    odd = {tuple(n.split(": ")): row for n, row in rows.items() if n not in counts}
    return counts, odd


def test_the_table_belongs_to_the_sources_of_today():
    tables.refuse_stale("nestings", tables.of_virtual_gpus("nestings"), "make nestings")


def test_no_case_ends_the_process_or_hangs_or_gives_other_numbers(record_property):
    counts, odd = results()
    total = sum(sum(kinds.values()) for kinds in counts.values())
    kinds = [kind for kind, _ in odd.values()]
    parts = [f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))]
    equal = sum(kinds["equal"] for kinds in counts.values())
    made = tables.read("nestings")["made"]
    record_property(
        "summary",
        f"nested transforms on a virtual GPU, of {made}: {equal} of {total} cases equal"
        f" the CPU's; {', '.join(parts)}",
    )
    assert total > 10_000 and len(counts) == 12
    assert equal / total > 0.8
    assert not {CRASH, HANG, "differs"} & {*kinds}


def test_every_case_that_is_refused_is_known_with_its_reason():
    _, odd = results()
    refused = {name for (name, _), (kind, _) in odd.items() if "device" in kind}
    assert refused == set(KNOWN)


@pytest.mark.timeout(300)
def test_transforms_still_give_what_the_table_says():
    _, odd = results()
    some = {name for name, _ in odd} | FAILED_ONCE
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    process = Python(RUN, EVERY, *some, cwd=ROOT, env=env)
    out, err = process.communicate(280)
    rows = [json.loads(row) for row in out.splitlines() if row[:1] == "["]
    last = rows[-1][:2] if rows else "none"
    assert process.poll() == 0, f"the process ended in {last}: {err[-2000:]}"
    now = {tuple(row[:2]): row[2] for row in rows if len(row) == 4}
    assert {name for name, _ in now} > some and len(now) > 12 * 50
    differ = {case: kind for case, kind in now.items() if kind not in AGREE}
    assert differ == {case: row[0] for case, row in odd.items()}


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
    from tests import nestings

    monkeypatch.setattr(nestings, "CHILD", (sys.executable, "-c", CHILD))
    monkeypatch.setattr(nestings, "LIMIT", 2)
    rows = nestings.run(["good", "worse", "slow", "last"])
    kinds = {case: kind for case, (kind, _) in rows.items()}
    odd = {("worse", "jvp"): CRASH, ("slow", "vjp"): HANG}
    names = "good", "worse", "slow", "last"
    fine = {(name, way): "equal" for name in names for way in ("jvp", "vjp")}
    assert kinds == fine | odd
