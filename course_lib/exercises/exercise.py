"""What an exercise is: cases, what is observed in a rank, and a judge of that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.exercises import folders


class Wrong(Exception):
    """What an answer did, and what a right one does; `hint` is about this mistake."""

    failed = False  # the answer ran to its end
    case = 0  # number of the case that shows it

    def __init__(self, sentence: str, hint: str = "", *, clue=None, also=None):
        """`clue` is what tells this mistake from others, `also` what else was seen.

        Both are plain data of numbers, text and tensors, as `fingerprints` takes them.
        """
        super().__init__(sentence)
        self.hint = hint
        self.lines: Sequence[str] = ()  # of code, shown below the sentence
        self.clue, self.also = clue, also


@dataclass(frozen=True)
class Case:
    """One launch of an answer: what `observe` is given, and on how many ranks.

    `expected` stays with the judge: what a right answer would give.
    """

    given: dict
    world_size: int = 1
    trace: bool = False
    expected: Any = None


@dataclass(frozen=True)
class Exercise:
    """One exercise, as the modules and texts of its folder make it: 4.1 of `e4_1/`.

    `observe(rank, world_size, answer, given)` runs in each rank and returns plain data.
    `cases(seed)` gives one `Case` after another; seed 0 is the learner's.
    `judge(case, seen)` gets what every rank returned, and returns what is proven of
    this case or raises `Wrong`. Optional, beside `judge`:
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
        return self._task["title"].replace("\n", " ")

    @property
    def minutes(self) -> int:
        """How long it takes, about."""
        return int(self._task["minutes"])

    @property
    def hints(self) -> list[str]:
        """Two or three, each of which says more."""
        hints = (text for name, text in self._task.items() if name.startswith("hint "))
        return [text.replace("\n", " ") for text in hints]

    @property
    def _task(self):
        return folders.texts(self.id)["task"]
