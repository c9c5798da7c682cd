"""The list of deliberate mistakes fits the code; `make mutants` proves each caught."""

from collections import Counter

import pytest

from tests.mutants.__main__ import ROOT, mutated
from tests.mutants.__main__ import mutants as every

MUTANTS = every()


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
