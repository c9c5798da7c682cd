"""What many grades say together: points per notebook, the exercises most missed."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from course_lib.grading import grades
from course_lib.grading.grades import Grade
from course_lib.grading.report import wording


@dataclass(frozen=True)
class Count:
    """How often one exercise had each outcome."""

    notebook: str
    id: str
    outcomes: Counter

    @property
    def total(self) -> int:
        """How many submissions have this exercise."""
        return self.outcomes.total()

    @property
    def missed(self) -> int:
        """How many of them did not get it right."""
        return self.total - self.outcomes[grades.RIGHT]

    @property
    def share(self) -> float:
        """What part of them did not."""
        return self.missed / self.total


@dataclass(frozen=True)
class Points:
    """The points of all graded submissions of one notebook."""

    notebook: str
    points: tuple[float, ...]
    max_points: float

    @property
    def mean(self) -> float:
        """The mean of the points."""
        return statistics.mean(self.points)

    @property
    def median(self) -> float:
        """Half of the submissions have so many points or more."""
        return statistics.median_high(self.points)

    @property
    def share(self) -> float:
        """The mean as a part of all points."""
        return self.mean / self.max_points if self.max_points else 0.0


def best(found: Iterable[Grade]) -> list[Grade]:
    """Of several files of one learner for a notebook the one with most points.

    What has no points is left out.
    """
    tries = {}
    for grade in filter(wording.has_points, found):
        tries.setdefault((grade.learner, grade.notebook), []).append(grade)
    return [max(some, key=lambda grade: grade.points) for some in tries.values()]


def total(found: Sequence[Grade]) -> str:
    """All points of a learner: `7 of 14 points`, and how many notebooks have none."""
    scored, parts = best(found), []
    if scored:
        points = wording.number(sum(grade.points for grade in scored))
        most = wording.number(sum(grade.max_points for grade in scored))
        parts.append(f"{points} of {most} points")
    without = sum(not wording.has_points(grade) for grade in found)
    if without:
        parts.append(f"{without} notebook{'s' * (without > 1)} without points")
    return ", ".join(parts)


def twice(found: Iterable[Grade]) -> list[str]:
    """The learners with several files of one notebook that have points."""
    scored = list(filter(wording.has_points, found))
    tries = Counter((grade.learner, grade.notebook) for grade in scored)
    names = [wording.name(g) for g in scored if tries[g.learner, g.notebook] > 1]
    return list(dict.fromkeys(names))


def notebooks(found: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each notebook, by its name."""
    return _by("notebook", sorted(found, key=lambda grade: grade.notebook))


def learners(found: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each learner, by their names without regard to case."""
    order = sorted(found, key=lambda grade: (grade.learner.casefold(), grade.notebook))
    return _by("learner", order)


def _by(field, found):
    groups = {}
    for grade in found:
        groups.setdefault(getattr(grade, field), []).append(grade)
    return groups


def exercises(found: Iterable[Grade]) -> dict[str, list[str]]:
    """The exercises of each notebook that was graded, in the order of the course."""
    groups = notebooks(grade for grade in found if grade.tasks)
    return {notebook: _ids(group) for notebook, group in groups.items()}


def _ids(group):
    # the longest first: it has the order for what is missing in others
    longest = sorted(group, key=lambda grade: -len(grade.tasks))
    return list(dict.fromkeys(task.id for grade in longest for task in grade.tasks))


def points(found: Iterable[Grade]) -> list[Points]:
    """The points of each notebook; what the grader failed on does not count."""
    groups = notebooks(best(found))
    return [
        Points(
            notebook,
            tuple(grade.points for grade in group),
            max(grade.max_points for grade in group),
        )
        for notebook, group in groups.items()
    ]


def counts(found: Iterable[Grade]) -> list[Count]:
    """The outcomes of each exercise, the one that most people missed first."""
    scored = best(found)
    outcomes = {
        (notebook, exercise): Counter()
        for notebook, ids in exercises(scored).items()
        for exercise in ids
    }
    for grade in scored:
        for task in grade.tasks:
            outcomes[grade.notebook, task.id][task.outcome] += 1
    all_of_them = [Count(*key, counter) for key, counter in outcomes.items()]
    return sorted(all_of_them, key=lambda count: -count.share)
