"""Two runs: `make test` asks whether the course works here, `make proof` all the rest.

A test for which a rule here holds has the marker `proof`: `make test` leaves it out,
`make proof` runs nothing else. Tests that are named, as by `-k NAME`, run whichever run
they are in.
"""

import re

from tests import answers

NAMES = ("test", "proof")
# tests of `make proof`, by how their names begin: what takes long by what was measured
_PROOF = re.compile(
    "|".join(
        (
            "tests/test_browser_(lessons|scenes).py",
            "tests/test_capabilities.py",
            "tests/test_checks.py::test_(a_wrong_answer_gets_no|each_mistake)",
            "tests/test_grading_attacks.py",
            "tests/test_judges.py::test_(other_cases|a_judge)",
            "tests/test_outside.py",
        )
    )
)
# the first cell of a lesson with which it has run for more than eight seconds: `make
# test` ends before it, and `make proof` runs the lesson as a whole
LATE = {
    "04": "speed",
}
_NAMED = ("keyword", "markexpr", "changed", "lf")  # options that name tests


def pytest_addoption(parser) -> None:
    """Add the option by which the Makefile says which run it is."""
    words = "of make test, or only all others; those that are named run in both"
    parser.addoption("--run", choices=NAMES, help=f"only the tests {words}")


def settle(config) -> None:
    """Forget which run it is where tests are named; workers are told what is left."""
    option = config.option
    named = [getattr(option, name, None) for name in _NAMED]
    if any(named) or config.args_source is config.ArgsSource.ARGS:
        option.run = None


def mark(items) -> None:
    """Give the tests of `make proof` their marker."""
    caused, late = set(), set()
    for item in items:
        if (
            _PROOF.match(item.nodeid)
            or _is_further_answer(item)
            or _is_caused_again(item, caused)
            or _comes_late(item, late)
        ):
            item.add_marker("proof")


def _is_further_answer(item):
    """True for an answer beyond the few of its exercise."""
    answer = item.callspec.params.get("answer") if hasattr(item, "callspec") else None
    return answer is not None and answer not in answers.few()


def _is_caused_again(item, caused):
    """True for a fault of the table that an earlier test causes."""
    mark = item.get_closest_marker("fault")
    fault = mark and (*mark.args, mark.kwargs.get("nodes"))
    again = fault in caused
    caused |= {fault} if fault else set()
    return again


def _comes_late(item, late):
    """True for the cells of a lesson from the one in `LATE` on."""
    if not is_cell(item):
        return False
    if item.cell.get("id") == LATE.get(item.path.stem.partition("_")[0]):
        late.add(item.path)
    return item.path in late


def is_cell(item) -> bool:
    """True for a cell of a notebook, which nbval runs."""
    return hasattr(item, "cell")


def of(run: str | None, items: list, browsed: set) -> list:
    """The tests of a run, or of both.

    Cells of a lesson are nothing without those before them, so `make proof` runs it
    whole: in a browser (those in `browsed`), or by nbval.
    """
    proof = {item for item in items if item.get_closest_marker("proof")}
    late = {item.path for item in proof}

    def belongs(item):
        if run == "test" or not is_cell(item):
            return not run or (item in proof) == (run == "proof")
        return item.path not in browsed and (not run or item.path in late)

    return [item for item in items if belongs(item)]
