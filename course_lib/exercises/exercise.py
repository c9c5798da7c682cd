"""What an exercise is: cases, what is observed in a rank, and a judge of that."""

import functools
import json
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TASKS = Path(__file__).parent / "tasks.json"


class Wrong(Exception):
    """What an answer did, and what a right one does; `hint` is about this mistake."""

    failed = False  # the answer ran to its end
    case = 0  # number of the case that shows it

    def __init__(self, sentence: str, hint: str = "", *, clue=None, also=None):
        """`clue` is what tells this mistake from others, `also` what else was seen.

        Both are plain data of numbers, text and tensors, as `fingerprints` takes them.
        """
        super().__init__(sentence)
        self.hint, self.lines = hint, ()
        self.clue, self.also = clue, also


@dataclass(frozen=True)
class Case:
    """One launch of an answer: what `observe` is given, and on how many ranks.

    `expected` stays with the judge: what a right answer would give.
    """

    given: dict
    world_size: int = 1
    trace: bool = False
    expected: object = None


@dataclass(frozen=True)
class Exercise:
    """One exercise: two modules named by its id, `observe/e4_1.py` and `judge/e4_1.py`.

    Its texts are `texts/4.1.ini`; `tasks.json` has title, minutes and hints.
    `observe(rank, world_size, answer, given)` runs in each rank and returns plain data.
    `cases(seed)` gives one `Case` after another; seed 0 is the learner's.
    `judge(case, seen)` gets what every rank returned, and returns what is proven of
    this case or raises `Wrong`. Optional, in the module of the judge:
    `draw(case, seen)` returns axes or None, `failed(case, wrong)` judges a launch that
    failed, as `judge` does.
    """

    id: str
    observe: Callable
    cases: Callable
    judge: Callable
    draw: Callable | None = None
    failed: Callable | None = None

    @property
    def title(self) -> str:
        """As in its heading."""
        return _tasks()[self.id]["title"]

    @property
    def minutes(self) -> int:
        """How long it takes, about."""
        return _tasks()[self.id]["minutes"]

    @property
    def hints(self) -> list[str]:
        """Two or three, each of which says more."""
        return _tasks()[self.id]["hints"]


def modules_of(package: str, folder: list[str]) -> list[str]:
    """The names of a package's modules that belong to an exercise, in order."""
    modules = (module.name for module in pkgutil.iter_modules(folder))
    own = sorted(name for name in modules if re.fullmatch(r"e\d+_\d+[a-z]?", name))
    return [f"{package}.{name}" for name in own]


@functools.cache
def _tasks():
    return json.loads(_TASKS.read_text(encoding="utf-8"))
