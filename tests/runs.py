"""Two runs: `make test` asks whether the course works here, `make proof` all the rest.

A test for which a rule here holds has the marker `proof`: `make test` leaves it out,
`make proof` runs nothing else. Tests that are named, as by `-k NAME`, run whichever run
they are in. Of the answers to exercises a share is decided anew in `make proof`.
"""

import re

import pytest

from tests import answers

NAMES = ("test", "proof")
COLLECTED = pytest.StashKey[list]()  # all tests, whatever is chosen of them
# tests of `make proof`, by how their names begin
_PROOF = re.compile(
    "|".join(
        f"tests/{name}"
        for name in (
            # each lesson and each scene in the browser; of its walk the exercises
            "test_browser_(lessons|scenes).py",
            "test_browser.py::test_(the_link|the_tabs|a_check|a_wrong|a_right|what_)",
            # all answers, drawn cases, unexpected values, mistakes in notebooks
            "test_checks.py::test_(each_mistake|settings_of|a_wrong_answer_gets_no)",
            "test_checks.py::test_(a_fault|what_is_done|an_answer|time_that)",
            "test_judges.py::test_(other_cases|a_judge)",
            "test_hostile_answers.py::test_a_(hostile|model)",
            "test_handed_out.py::test_(right_answers|a_mixture)",
            # lesson 05, and answers with processes, by another start method
            "test_start_methods.py::test_(the_lesson|a_right|a_wrong)",
            # random edits
            "test_workspace.py::test_no_line_that",
            "test_merging.py::test_whatever",
            # the grader: attacks, classes on many machines, whole runs
            "test_grading_(attacks|cluster).py",
            "test_grade_command.py::test_(json|what_is_finished|a_second_run)",
            # faults that no table lists, or that are there in a second dress
            "faults/test_beside_the_table.py",
            r"faults/test_4_notebook.py::test_when_jupyterlab.*by SIG",
            "faults/test_11_nodes.py::test_(?!a_node|nodes)",
            "test_docs.py::test_the_first_aid",
            # programs from elsewhere; what starts many processes
            "test_outside.py",
            "test_scripts.py::test_(ranks_of|a_rank_that_is|a_run_that|.*hogwild)",
            r"test_scripts.py::test_a_signal_stops_all(?!.*at one step)",
            "test_scripts.py::test_(a_signal_that|ranks_that_spawn|torchrun|rank_0_puts)",
            "test_rank_code.py",
            "test_launch.py::test_(a_variable_read|a_rank_has_as_many)",
            "test_linux.py::test_what_a_killed",
            "test_sweeps.py::test_(a_study_in_a_notebook|an_interrupt)",
            # virtual GPUs: operators, capabilities; what is too large
            "test_vgpu_(operators|nestings).py",
            "test_capabilities.py",
            "test_vgpu_shortage.py::test_a_huge",
            "test_scenes_timeline.py::test_a_hundred_thousand",
            # what lessons 07 to 07c define, in many launches
            "test_copied_code.py",
            # the forms of lessons 09 and 09b, but for the first ones of each
            r"test_lesson_sharding.py::(?!.*(zero1-2|fsdp-3|layer.*\[3|formula\[2|2-3))",
            # what measures and tests the course
            "test_(benchmarks|batch_size|changed|film|types).py",
            "test_runs.py::test_workers",
            "test_mutants.py::test_a_mutant_is_caught",
            # the doctor: new processes on machines with GPUs of no use
            "test_doctor_gpus.py::test_(the_course_goes_on|gpus_that|a_torch_built.*goes)",
            "test_exercises.py::test_(a_check_that|another_error|the_words|a_failing)",
            "test_exercises.py::test_(only_a|solutions_run|a_figure|the_run|no_test|a_course)",
        )
    )
)
# the first cell of a lesson with which it has run for more than eight seconds: `make
# test` ends before it, and `make proof` runs the lesson whole
LATE = {
    "01b": "many",
    "02b": "loop",
    "04": "speed",
    "05": "hogwild",
    "06": "exact",
    "06b": "full-end",
    "07": "time",
    "07b": "equal",
    "07c": "errors",
    "08": "kill",
    "08b": "pub",
    "09": "calls",
    "09b": "groups",
}
# of the answers that these tests decide, beside each mistake, `make proof` takes one in
# so many
SHARES = {
    "tests/test_checks.py::test_a_wrong_answer_gets_its_hint": answers.PART,
    "tests/test_start_methods.py::test_a_wrong_answer_gets_its_hint": answers.PART,
    "tests/test_judges.py::test_other_cases_decide_as_the_learners_do": 2,
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


def mark(config, items) -> None:
    """Give the tests of `make proof` their marker."""
    config.stash[COLLECTED] = [*items]
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


def is_left_out(item) -> bool:
    """True for an answer that is decided only where it, or all of them, are named."""
    part = SHARES.get(item.nodeid.partition("[")[0])
    if part is None:
        return False
    return not answers.is_taken(item.callspec.params["answer"], part)


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
    if item.cell.get("id") == LATE.get(number(item.path)):
        late.add(item.path)
    return item.path in late


def number(path) -> str:
    """The number of a lesson: "07b"."""
    return path.stem.partition("_")[0]


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
            mine = not run or (item in proof) == (run == "proof")
            return mine and not (run and is_left_out(item))
        return item.path not in browsed and (not run or item.path in late)

    return [item for item in items if belongs(item)]
