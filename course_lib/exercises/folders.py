"""Where exercises are kept: 4.1 in the folder `e4_1`, beside this module.

A folder has `judge.py`, which decides on an answer; `observe.py`, which runs in a rank,
if the judge takes no other exercise's; `texts.ini`, all that the learner reads; and
`mistakes.json`, which `make mistakes` makes.
"""

import configparser
import functools
import os
import re
from pathlib import Path

HERE = Path(__file__).parent
_NAME = re.compile(r"e(\d+)_(\d+)([a-z]?)")


def by_exercise() -> dict[str, Path]:
    """Return the folder of each exercise by its id, in order: 9.2 before 10.1."""
    matches = filter(None, (_NAME.fullmatch(path.name) for path in HERE.iterdir()))
    # where another branch had an exercise, git leaves what Python has compiled
    there = [m for m in matches if {*os.listdir(HERE / m[0])} - {"__pycache__"}]
    ordered = sorted(there, key=lambda m: (int(m[1]), int(m[2]), m[3]))
    return {exercise_of(match[0]): HERE / match[0] for match in ordered}


def folder(exercise: str) -> Path:
    """Return the folder of an exercise, which may not be there."""
    return HERE / folder_name(exercise)


def folder_name(exercise: str) -> str:
    """Return the name of the folder of an exercise: `e4_1` for 4.1."""
    return f"e{exercise.replace('.', '_')}"


def exercise_of(name: str) -> str:
    """Return the exercise whose folder has this name: 4.1 for `e4_1`."""
    return name[1:].replace("_", ".")


def module_name(exercise: str, part: str) -> str:
    """Return the dotted name of a module of an exercise: its `judge` or `observe`."""
    return f"{__package__}.{folder_name(exercise)}.{part}"


def observing() -> list[str]:
    """Return the names of the modules that run in ranks, to be imported ahead."""
    paths = by_exercise().items()
    own = (number for number, path in paths if (path / "observe.py").exists())
    return [module_name(number, "observe") for number in own]


@functools.cache
def texts(exercise: str) -> configparser.ConfigParser:
    """Return all texts of an exercise, by section and name."""
    parser = configparser.ConfigParser(
        delimiters=("=",),
        comment_prefixes=("#",),
        empty_lines_in_values=False,
        interpolation=configparser.ExtendedInterpolation(),
    )
    parser.optionxform = lambda optionstr: optionstr
    with (folder(exercise) / "texts.ini").open(encoding="utf-8") as file:
        parser.read_file(file)
    return parser
