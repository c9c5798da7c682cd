"""The code of lessons by the ids of its cells, for tests that run what people copy."""

import ast
import re
from functools import cache
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# what launches, asks or draws; the digits are data
_RUNS = re.compile(r"\bcl\.(?!digits\b)|\bscenes\.|\.was\(|\.show\(")
_KEPT = ast.Import, ast.ImportFrom, ast.FunctionDef


@cache
def cells(lesson: str) -> dict[str, str]:
    """The sources of the cells of a lesson, "01b", by their ids."""
    [path] = NOTEBOOKS.glob(f"{lesson}_*.ipynb")
    return {cell.id: cell.source for cell in nbformat.read(path, 4).cells}


def block(lesson: str, cell: str) -> str:
    """The code within a text cell."""
    [code] = re.findall(r"```python\n(.*?)```", cells(lesson)[cell], re.DOTALL)
    return code


def definitions(lesson: str, names: tuple[str, ...]) -> str:
    """What these cells import, define and name, without what they launch or draw.

    What is computed from results of a launch is left out, too.
    """
    kept, gone = [], set()
    for node in (n for name in names for n in ast.parse(cells(lesson)[name]).body):
        text = ast.unparse(node)
        used = {n.id: type(n.ctx) for n in ast.walk(node) if isinstance(n, ast.Name)}
        runs = _RUNS.search(text) or gone & used.keys()
        if isinstance(node, _KEPT):
            kept.append(text)
            # who calls a function that launches, launches
            gone |= {node.name} if runs and isinstance(node, ast.FunctionDef) else set()
        elif runs:
            gone |= {name for name, use in used.items() if use is ast.Store}
        else:
            kept.append(text)
    return "\n".join(kept)


def defined(lesson: str, names: tuple[str, ...]) -> dict:
    """The names of these definitions."""
    space = {"__name__": "__main__"}  # so that ranks get its functions by value
    exec(definitions(lesson, names), space)
    return space
