"""Exercise 7.2, decided: α and β of measured messages, and where two costs meet."""

import random
from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from course_lib.accelerators.alpha_beta import ALGORITHMS
from course_lib.exercises.e6_2.judge import parts_of
from course_lib.exercises.e6_2.observe import observe as observe
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import many, size

_TEXTS = Texts("7.2")
_CLOSE = 0.1  # relative, of α and β: sound fits are off by 0.05 at most
_SAME = 0.01  # of the crossing that follows from them, in units of α / β
_NAMES = ("alpha", "beta")
_WAYS = ("chunked ring", "binomial tree")
_SHUFFLED = (12, 2, 9, 5, 10, 3, 13, 7, 4, 8, 6, 11)


class TimedLink(NamedTuple):
    """A message of B bytes takes `alpha` + `beta` B seconds; `ranks` reduce by it."""

    alpha: float
    beta: float
    ranks: int

    @property
    def crossing(self) -> float:
        """Return where ring and tree take the same time, in units of alpha / beta."""
        ring, tree = (ALGORITHMS[name].bill(self.ranks) for name in _WAYS)
        return (ring.rounds - tree.rounds) / (tree.path - ring.path)


# sizes in bytes, or as shares of alpha / beta, and how far times are off: exact; from
# 16 bytes on, where a fit of absolute errors sees the large ones alone; about alpha /
# beta, where no point shows alpha or beta by itself; with 2 steps of the tree
_LINKS = (
    (TimedLink(50e-6, 1e-9, 8), (1_000, 10_000, 100_000, 1_000_000, 10_000_000), 0.0),
    (TimedLink(31.4e-6, 0.43e-9, 12), [4**k for k in _SHUFFLED], 0.03),
    (TimedLink(0.87e-3, 9.1e-9, 5), (0.6, 1.0, 2.5, 4.0, 9.0), 0.003),
    (TimedLink(7.2e-6, 0.052e-9, 3), [4**k for k in range(3, 14)], 0.02),
)
_RANKS = 6, 9, 16, 20  # of other seeds, each once: one is a power of two


def cases(seed: int) -> Iterator[Case]:
    """Yield four links at once, each expected; another seed draws other ones."""
    numbers, rows, links = random.Random(seed), [], []
    others = random.Random(seed).sample(_RANKS, len(_LINKS))
    for (link, sizes, error), ranks in zip(_LINKS, others):
        if seed:
            times = numbers.uniform(0.5, 2)
            link = TimedLink(link.alpha * times, link.beta / times, ranks)
        unit = link.alpha / link.beta if isinstance(sizes[0], float) else 1
        sizes = [round(share * unit) for share in sizes]
        rows.append((_measured(link, sizes, error=error, numbers=numbers), link.ranks))
        links.append(link)
    yield Case({"table": rows}, expected=links)


def _measured(link, sizes, *, error, numbers):
    """The seconds by size, too long and too short by turns: no two lead fits astray."""
    off = {
        count: (-1) ** place * numbers.uniform(0.7, 1) * error
        for place, count in enumerate(sorted(sizes))
    }
    return {
        count: (link.alpha + link.beta * count) * (1 + off[count]) for count in sizes
    }


def judge(case: Case, seen) -> str:
    """Compare α and β of each link, then the crossing that follows from them."""
    [rank] = seen
    links, tables = case.expected, [seconds for seconds, _ in case.given["table"]]
    ratios = map(_ratios, map(_numbers, rank["answers"]), links)
    clue = {"links": dict(enumerate(ratios))}
    for number, (answer, *row) in enumerate(zip(rank["answers"], links, tables), 1):
        _judge_link(answer, *row, number=number, clue=clue)
    if any(answer["changed"] for answer in rank["answers"]):
        raise _TEXTS.wrong("changed")
    return many(len(links), "link")


def _judge_link(answer, link, seconds, **fill):
    """Refuse other numbers than α, β and the crossing of one link."""
    row = _numbers(answer)
    if row is None:
        raise _TEXTS.wrong("no numbers", returned=shown(answer["returned"]), **fill)
    fill |= {"count": len(seconds), "ranks": link.ranks}
    fill |= {"least": size(min(seconds)), "most": size(max(seconds))}
    _refuse_fit(row, link, seconds, **fill)
    unit = row[0] / row[1]
    if abs(row[2] / unit - link.crossing) > _SAME * max(1, link.crossing):
        fill |= {"returned": row[2], "expected": link.crossing * unit}
        raise _TEXTS.wrong("other crossing", **fill)


def _numbers(answer):
    """The three numbers of an answer, or None."""
    found = list(map(number_of, parts_of(answer) or ()))
    return found if len(found) == 3 and None not in found else None


def _ratios(row, link):
    """What was found by what is right; the crossing by alpha / beta of the answer."""
    if row is None:
        return {}
    crossing = row[2] * row[1] / row[0] if row[0] else 0.0
    return {
        "alpha": row[0] / link.alpha,
        "beta": row[1] / link.beta,
        "crossing": crossing,
    }


def _refuse_fit(row, link, seconds, **fill):
    """Refuse the first of α and β that is not that of the link."""
    for name, found, right in zip(_NAMES, row, link):
        if abs(found / right - 1) > _CLOSE:
            worst = max(seconds, key=lambda count: _off(row, count, seconds))
            fill |= {"name": name, "returned": found, "expected": right}
            fill |= {"bytes": worst, "measured": seconds[worst]}
            fill["fitted"] = row[0] + row[1] * worst
            raise _TEXTS.wrong("other fit", why=_why(row, link), **fill)


def _off(row, count, seconds):
    return abs((row[0] + row[1] * count) / seconds[count] - 1)


def _why(row, link):
    """The name of the hint for a fit that is wrong."""
    for alpha, beta, _ in permutations(row):
        if max(abs(alpha / link.alpha - 1), abs(beta / link.beta - 1)) < _CLOSE:
            return "other order"
    return "rate" if abs(row[1] * link.beta - 1) < _CLOSE else "relative"
