"""A small exercise notebook with three plain checks, and copies that were handed in."""

import json
from dataclasses import dataclass

SETUP = "import os, signal, sys, time"
ANSWERS = {
    "square": "def square(x):\n    return x * x",
    "total": "def total(xs):\n    return sum(xs)",
    "label": "def label(n):\n    return f'rank {n}'",
}
CHECKS = {
    "square": (2, "assert square(3) == 9, f'3 squared is 9, found {square(3)}'"),
    "total": (3, "assert total([1, 2, 3]) == 6, 'a sum of 6 was expected'"),
    "label": (5, "assert label(2) == 'rank 2', 'rank 2 was expected'"),
}


@dataclass(frozen=True)
class Handed:
    """What a learner handed in, as bytes."""

    data: bytes
    learner: str = "ada"
    source: str = "ada.ipynb"

    def read(self):
        return self.data


def cell(name, source, **nbgrader):
    metadata = {}
    if nbgrader:
        roles = {"grade": False, "solution": False, "locked": False, "task": False}
        ids = {"schema_version": 3, "grade_id": name}
        metadata["nbgrader"] = {**roles, **ids, **nbgrader}
    return {
        "cell_type": "code",
        "id": name,
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def notebook(answers):
    """The notebook with these answers; a stub where there is none."""
    cells = [cell("setup", SETUP)]
    for name, right in ANSWERS.items():
        points, check = CHECKS[name]
        stub = f"{right.partition(chr(10))[0]}\n    raise NotImplementedError"
        cells.append(cell(name, answers.get(name, stub), solution=True))
        tests = {"grade": True, "locked": True, "points": points}
        cells.append(cell(f"{name}-test", check, **tests))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel},
        "cells": cells,
    }


def release(folder):
    """Write the notebook as it is handed out into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.ipynb").write_text(json.dumps(notebook({})))
    return folder


def handed(*, before="", after="", change=None, **answers):
    """A right notebook with other `answers`, with code around the first of them.

    `change(cells)` may do anything to its cells.
    """
    given = {**ANSWERS, **answers}
    around = [before, given["square"], after]
    made = notebook({**given, "square": "\n".join(filter(None, around))})
    if change:
        made["cells"] = change(made["cells"]) or made["cells"]
    return Handed(json.dumps(made).encode())
