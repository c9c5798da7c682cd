"""Checks that must fail: each once more, with the stub in place of its answer."""

import builtins
import re
from dataclasses import replace

from course_lib.grading.notebook import cells
from course_lib.grading.notebook.merging import Merged
from course_lib.workspace.cell import Cell, free_id


def canaries(merged: Merged) -> list[Cell]:
    """Return each check once more, below the stubs of its answers: it must fail."""
    by_id = {cell.id: cell for cell in merged.assignment.cells}
    forget = _forget(merged)
    below = []
    taken = set()
    for check in merged.assignment.checks:
        for answer in check.answers:
            name = free_id(f"stub-{answer.id}", taken)
            taken.add(name)
            whole = _complete(answer.source)
            source = answer.source if whole else forget + answer.source
            below.append(_bare(answer, id=name, source=source))
        below.append(_bare(by_id[check.cell], id=f"canary-{check.cell}"))
    return below


def _complete(stub):
    """True if a stub takes the place of all that its answer defined.

    One that raises before it defines a name does not; a cell of another language,
    which begins with %%, is none of Python's.
    """
    raises = re.search(r"^raise\b", stub, re.MULTILINE)
    return stub.startswith("%%") or bool(cells.defined(stub) and not raises)


def _bare(cell, **changes):
    """A copy that no other grader takes for the cell itself."""
    about = {key: cell.metadata[key] for key in cell.metadata if key != "nbgrader"}
    return replace(cell, metadata=about, **changes)


def _forget(merged):
    """Code that drops the learner's names, and leaves what the exercise gives.

    Whoever replaced a given function or module is to be found out.
    """
    given, names = {*dir(builtins)}, set()
    for cell in merged.assignment.cells:
        if cell.role in ("given", "locked", "check"):
            given |= {*cells.imported(cell.source)}
    for cell in merged.cells:
        if cell.id in merged.learners:
            names |= {*cells.defined(cell.source, nested=True)}
    return f"[globals().pop(name, None) for name in {sorted(names - given)}];\n"
