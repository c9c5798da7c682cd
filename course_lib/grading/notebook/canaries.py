"""Checks that must fail: each once more, with the stub in place of its answer."""

import builtins
import copy
import re

from course_lib.grading.notebook import cells
from course_lib.grading.notebook.assignment import role
from course_lib.grading.notebook.merging import Merged


def canaries(merged: Merged) -> list[dict]:
    """Each check once more, below the stubs of its answers: it must fail there."""
    by_id = {cell["id"]: cell for cell in merged.assignment.cells}
    forget, below, taken = _forget(merged), [], set()
    for check in merged.assignment.checks:
        for answer in merged.assignment.answers(check.cell):
            name = cells.free(f"stub-{answer['id']}", taken)
            taken.add(name)
            stub = _bare(answer) | {"id": name}
            if not _complete(stub["source"]):
                stub["source"] = forget + stub["source"]
            below.append(stub)
        below.append(_bare(by_id[check.cell]) | {"id": f"canary-{check.cell}"})
    return below


def _complete(stub):
    """True if a stub takes the place of all that its answer defined.

    One that raises before it defines a name does not; a cell of another language,
    which begins with %%, is none of Python's.
    """
    raises = re.search(r"^raise\b", stub, re.MULTILINE)
    return stub.startswith("%%") or bool(cells.defined(stub) and not raises)


def _bare(cell):
    """A copy that no other grader takes for the cell itself."""
    bare = copy.deepcopy(cell)
    bare["metadata"].pop("nbgrader", None)
    return bare


def _forget(merged):
    """Code that drops the learner's names, and leaves what the exercise gives.

    Whoever replaced a given function or module is to be found out.
    """
    given, names = {*dir(builtins)}, set()
    for cell in merged.assignment.cells:
        if role(cell) in ("given", "locked", "check"):
            given |= {*cells.imported(cell["source"])}
    for cell in merged.cells:
        if cell["id"] in merged.learners:
            names |= {*cells.defined(cell["source"], nested=True)}
    return f"[globals().pop(name, None) for name in {sorted(names - given)}];\n"
