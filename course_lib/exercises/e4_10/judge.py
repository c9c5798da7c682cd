"""Exercise 4.10, decided: five mended programs have run, and their causes are named."""

from course_lib.exercises.attempt import STUCK, Failed
from course_lib.exercises.e4_10.cases import cases
from course_lib.exercises.e4_10.programs import (
    FAULTS,
    Unfit,
    entries,
    file_of,
    mended,
)
from course_lib.exercises.e4_10.script import judge_script
from course_lib.exercises.e4_10.verdicts import (
    judge_dropout,
    judge_stop,
    judge_weights,
    run_wrong,
)
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown

__all__ = ["cases", "failed", "judge"]

_TEXTS = Texts("4.10")
# where to look for the cause of a run that is mended
_ABOUT = {
    "A": "cause A",
    "B": "cause B",
    "C": "cause C",
    "D": "cause D",
    "E": "cause E",
}
_GONE = (*STUCK, "lost", "left")  # kinds of launches in which ranks waited in vain


def judge(case: Case, seen) -> str:
    """Look at the form of the cures, at what the mended program does, at the causes."""
    run = case.given["run"]
    for one in seen:
        _refuse_unfit(one["returned"], run)
        if not one["ran"]:
            raise run_wrong("refused", case, said=one.get("refused", ""))
    _JUDGES[run](case, seen)
    _refuse_causes(case, entries(seen[0]["returned"], run))
    return run


def failed(case: Case, wrong: Failed) -> str:
    """Tell of a program that failed in a rank; what the answer itself does stays."""
    run, error = case.given["run"], wrong.error
    stacks = [error.own, *error.where.values()]
    if not any(frame.file == file_of(run) for stack in stacks for frame in stack):
        raise wrong
    said, *lines = str(wrong).split("\n")
    stuck, many = error.kind in _GONE, case.world_size
    still = "stands still" if run == "D" else "stands still elsewhere"
    section = "endless" if error.kind == "late" else still if stuck else "raises"
    # the name of the answer's function says nothing of the run
    said = said.removeprefix(f"{error.head.partition(' on ')[0]} on {many} ranks: ")
    mistake = run_wrong(section, case, said=said)
    mistake.lines = [*lines, *wrong.lines]
    raise mistake


def _refuse_unfit(cures, run):
    """Refuse cures of another form, and such that do not fit the program."""
    try:
        mended(cures, run)
    except Unfit as unfit:
        fill = {k: v if type(v) is int else shown(v) for k, v in unfit.fill.items()}
        raise _TEXTS.wrong(unfit.section, run=run, **fill) from None


def _refuse_causes(case, entries):
    """Refuse a cause that is none of this program's, and fewer than it has."""
    run = case.given["run"]
    named = list(dict.fromkeys(entry[0] for entry in entries))
    for cause in named:
        if cause not in FAULTS[run]:
            clue = {"cause": cause}
            raise run_wrong(
                "cause", case, clue=clue, why=_ABOUT[run], named=shown(cause)
            )
    if len(named) < len(FAULTS[run]):
        raise run_wrong("causes missing", case, count=len(named))


_JUDGES = {
    "A": judge_weights,
    "B": judge_dropout,
    "C": judge_weights,
    "D": judge_stop,
    "E": judge_script,
}
