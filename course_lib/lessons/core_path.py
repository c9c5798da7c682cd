"""The core path through the course, and which exercises belong to which lesson."""

import configparser
import functools
from pathlib import Path

from course_lib.exercises.exercise import Exercise

STAR = "★"  # marks what belongs to the core path
_TABLE = Path(__file__).with_suffix(".ini")


@functools.cache
def _read():
    table = configparser.ConfigParser(interpolation=None)
    table.read_string(_TABLE.read_text(encoding="utf-8"))
    return table


def core_lessons() -> tuple[str, ...]:
    """Return the numbers of the lessons of the core path, "00" first."""
    return tuple(_read()["core"]["lessons"].split())


def core_exercises() -> tuple[str, ...]:
    """Return the ids of the exercises of the core path."""
    return tuple(_read()["core"]["exercises"].split())


def exercises_of(lesson: str, tasks: list[Exercise]) -> list[Exercise]:
    """Return those of the exercises that belong to a lesson, "06b"."""
    named = _read()["exercises"].get(lesson)
    if named is None:
        stage = str(int(lesson[:2]))
        return [task for task in tasks if task.id.partition(".")[0] == stage]
    ids = named.split()
    return [task for task in tasks if task.id in ids]
