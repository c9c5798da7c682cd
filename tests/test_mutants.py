"""The list of deliberate mistakes fits the code, and some are caught.

Each commit has others tried; `make mutants` tries all.
"""

import random
import subprocess
from collections import Counter

import pytest

from tests.mutants.__main__ import ROOT, RUNS, caught, mutated
from tests.mutants.__main__ import mutants as every

MUTANTS = every()
HEAD = subprocess.run(
    ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
)
# of each part one
SAMPLE = [
    random.Random(HEAD.stdout).choice([one for one in MUTANTS if one["part"] == part])
    for part in sorted({mutant["part"] for mutant in MUTANTS})
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant["name"] for mutant in MUTANTS])
def test_a_mutant_changes_the_code_as_it_is(mutant):
    text = (ROOT / mutant["file"]).read_text(encoding="utf-8")
    assert mutated(text, mutant) != text
    assert mutant["tests"] and mutant["old"] != mutant["new"]


def test_a_mutant_whose_place_is_gone_is_told():
    mutant = {"name": "one", "file": "a.py", "old": "x", "new": "y"}
    with pytest.raises(ValueError, match="stands 2 times in a.py, not once"):
        mutated("x x", mutant)


def test_mutants_are_spread_over_the_project():
    parts = Counter(mutant["part"] for mutant in MUTANTS)
    assert parts.keys() == {"package", "checks", "lessons", "grader"}
    assert min(parts.values()) >= 5 and sum(parts.values()) >= 40
    assert len({mutant["name"] for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.timeout(2000)
@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda mutant: mutant["name"])
def test_a_mutant_is_caught(mutant):
    run, test, printed = caught(mutant)
    assert run in RUNS and test, printed[-3000:]
