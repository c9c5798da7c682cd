"""Make exercises/ from solutions/: answers become stubs, outputs go.

Lines between ### BEGIN SOLUTION and ### END SOLUTION become a stub, cells tagged
solution-only are left out, outputs are cleared. The rest stays as it is.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from course_lib.authoring import lint
from course_lib.text import many
from course_lib.workspace.atomic import write_whole
from course_lib.workspace.cell import Cell, exercise_named
from course_lib.workspace.notebooks import clear, fingerprint, is_released

_COMMAND = "python -m course_lib release"


class Different(Exception):
    """An exercise that is not what its solution gives, and what to do about it."""


def read_solution(path: Path):
    """Return the solution notebook at `path`.

    Errors: `ValueError` with everything that is wrong in it, a line each with its cell.
    """
    from nbformat import reader

    try:
        notebook = reader.reads(path.read_text(encoding="utf-8"))
    except OSError:
        raise
    except Exception as error:  # whatever a damaged file makes of the reader
        raise ValueError(f"{path}: not a notebook: {error}") from None
    if problems := lint.problems(notebook):
        raise ValueError("\n".join(f"{path}, {text}" for text in problems))
    return notebook


def release(solution):
    """Return the exercise made from a solution notebook, which itself stays as it is.

    Errors: `ValueError` at a marker of a region without its partner.
    """
    exercise: Any = clear(solution)
    exercise.cells = [cell for cell in exercise.cells if not _solution_only(cell)]
    for cell in exercise.cells:
        if cell.cell_type == "code":
            cell.source = stub(cell)
    exercise.metadata.setdefault("course", {})
    exercise.metadata["course"]["released"] = fingerprint(exercise)
    return exercise


def _solution_only(cell):
    return lint.SOLUTION_ONLY in Cell.from_file(cell).tags


def stub(cell) -> str:
    """Return the source of a cell with its solution regions replaced by stubs."""
    lines = cell.source.split("\n")
    # from the end, so that the numbers of the lines above stay right
    for first, last in reversed(lint.regions(cell.source)):
        indent = lines[first][: -len(lines[first].lstrip())]
        count = lint.count(lines[first : last + 1])
        length = f"about {many(count, 'line')}"
        lines[first : last + 1] = [
            f"{indent}# {exercise_named(cell.id)}: your code, {length}",
            f"{indent}raise NotImplementedError",
        ]
    return "\n".join(lines)


def exercise_path(solution: Path) -> Path:
    """Return where the exercise of solutions/X.ipynb is: in exercises/ beside it.

    Errors: `ValueError` for a notebook that is not in a folder named solutions.
    """
    folder = solution.absolute().parent
    if folder.name != "solutions":
        raise ValueError(
            f"{solution}: exercises are made from notebooks in solutions/, and this is"
            f" in {folder.name}/"
        )
    return Path(os.path.relpath(folder.parent / "exercises" / solution.name))


def exercise_file(solution: Path) -> bytes:
    """Return the exercise of a solution as its file holds it.

    Errors: `ValueError` for a solution that breaks a rule; `OSError`.
    """
    import nbformat

    return f"{nbformat.writes(release(read_solution(solution)))}\n".encode()


def write_exercise(solution: Path, *, force: bool = False) -> str:
    """Write the exercise of `solution`; what happened comes back as a sentence.

    Errors: `Different` if somebody wrote into the exercise, which is then kept;
    `ValueError` for a solution that breaks a rule; `OSError`.
    """
    path, data = exercise_path(solution), exercise_file(solution)
    if path.exists() and path.read_bytes() == data:
        return f"{path}: as it was"
    if path.exists() and not force and (why := _changed(path)):
        raise Different(f"{path} {why}: kept. --force overwrites it.")
    write_whole(path, data)
    return f"{path}: written"


def _changed(path):
    """In which way an exercise is not as it was released; nothing if it is."""
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        return "" if is_released(notebook) else "was changed since its release"
    except OSError:
        raise
    except Exception:
        return "is not a notebook that can be read"


def compare(solution: Path) -> str:
    """Say that the exercise of `solution` is what release makes; nothing is written.

    Errors: `Different` if it is not, with the command that makes it so.
    """
    path, data = exercise_path(solution), exercise_file(solution)
    if not path.exists():
        raise Different(f"{path} is missing. Make it with: {_COMMAND} {solution}")
    if path.read_bytes() == data:
        return f"{path}: as it should be"
    force = lost = ""
    if _changed(path):
        force, lost = "--force ", " (what was written into it is lost)"
    raise Different(
        f"{path} is not what {solution} gives."
        f" Make it so with: {_COMMAND} {force}{solution}{lost}"
    )


def orphans() -> list[Path]:
    """Return the exercises below the current folder that have no solution."""
    paths = sorted(Path("exercises").glob("*.ipynb"))
    return [path for path in paths if not (Path("solutions") / path.name).exists()]


def _arguments(args):
    parser = argparse.ArgumentParser(
        _COMMAND,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0, or 1 if a file was kept, differs or cannot be made.",
    )
    parser.add_argument(
        "notebooks",
        nargs="*",
        type=Path,
        metavar="NOTEBOOK",
        help="solutions; all of solutions/*.ipynb if none is named",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--check",
        action="store_true",
        help="write nothing; name each exercise that is not what its solution gives",
    )
    either.add_argument(
        "--force",
        action="store_true",
        help="overwrite an exercise even if somebody wrote into it",
    )
    return parser.parse_args(args)


def main(args: list[str]) -> int:
    """Make or compare the exercises; exit status 1 unless all went well."""
    arguments = _arguments(args)
    solutions = arguments.notebooks or sorted(Path("solutions").glob("*.ipynb"))
    # an exercise without a solution is wrong even where no solution is left
    lost = orphans() if arguments.check and not arguments.notebooks else []
    if not solutions and not lost:
        print(
            f"there is no notebook in {Path('solutions').absolute()}:"
            " run this in the root folder of the course, or name notebooks",
            file=sys.stderr,
        )
        return 1
    failed = len(lost)
    for path in solutions:
        failed += not _one(path, arguments)
    for path in lost:
        print(
            f"{path} has no solution in solutions/. Write one, or: rm {path}",
            file=sys.stderr,
        )
    return int(failed > 0)


def _one(path, arguments):
    """True if all went well with one solution; says what happened."""
    try:
        if arguments.check:
            print(compare(path))
        else:
            print(write_exercise(path, force=arguments.force))
    except (ValueError, OSError, Different) as error:
        print(error, file=sys.stderr)
        return False
    return True
