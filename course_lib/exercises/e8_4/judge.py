"""Exercise 8.4, decided: the efficiency on 256 GPUs, from three times of a step."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from course_lib.exercises.attempt import Failed
from course_lib.exercises.e6_2.observe import observe as observe
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import number_of, shown
from course_lib.text import listed

_TEXTS = Texts("8.4")
_CLOSE = 0.002
# what is raised, and which times may be the reason
_RAISED = {"ZeroDivision": "fewer nodes", "LinAlg": "fewer nodes", "KeyError": "counts"}
_NODE = 8
# tokens per second of MPT-350m, bfloat16, on A100 40 GB, and tokens of a GPU in a step
# (mosaicml/llm-foundry, scripts/train/benchmarking/README.md, commit 061f2c7)
_TOKENS = {16: 886_622, 32: 1_721_978, 64: 3_372_118, 128: 6_647_647}
_BATCH = 36_864
_PUBLISHED = _TOKENS[128] / 128 / (_TOKENS[16] / 16)


class NodeRing(NamedTuple):
    """A step takes `rest` + 2(N - 1) `alpha` + 2(N - 1) / N `beta` s on N >= 2 nodes.

    `alone` are its seconds on 1 GPU and on one node.
    """

    rest: float
    alpha: float
    beta: float
    alone: tuple[float, float]

    def seconds(self, gpus: int) -> float:
        """Return seconds of a step, on one GPU, one node, or several."""
        nodes = gpus // _NODE
        if nodes < 2:
            return self.alone[nodes]
        return self.rest + 2 * (nodes - 1) * (self.alpha + self.beta / nodes)


# computation takes longer than `rest`, which is without what it hides; links with large
# tensors, with long latencies, and where next to nothing is hidden
_STEPS = (
    (NodeRing(0.181, 0.11e-3, 0.0372, (0.2, 0.2031)), (32, 1, 64, 16)),
    (NodeRing(0.0423, 0.37e-3, 0.0041, (0.044, 0.0442)), (1, 8, 24, 40, 72)),
    (NodeRing(0.3107, 0.021e-3, 0.113, (0.31, 0.327)), (8, 48, 16, 80)),
)


def _measured():
    """The published times, as they were on 16 to 64 GPUs."""
    return {n: _BATCH * n / _TOKENS[n] for n in (16, 32, 64)}


def cases(seed: int) -> Iterator[Case]:
    """Yield measured steps at once, then drawn ones; another seed draws other ones."""
    numbers = random.Random(seed)
    rows = [(_measured(), 128), (_measured(), 256)]
    for step, counts in _STEPS:
        if seed:
            times = numbers.uniform(0.6, 1.5)
            step = step._replace(
                alpha=step.alpha * times, beta=step.beta * numbers.uniform(0.6, 1.5)
            )
        rows.append(({n: step.seconds(n) for n in counts}, 256))
    yield Case({"table": rows}, expected=[efficiency(*row) for row in rows])


def efficiency(seconds: dict, gpus: int) -> float:
    """Return samples per second and GPU on `gpus`, relative to the fewest timed."""

    def terms(count):
        nodes = count / _NODE
        return 1, 2 * (nodes - 1), 2 * (nodes - 1) / nodes

    counts = [count for count in seconds if count > _NODE]
    rows, times = map(terms, counts), [seconds[count] for count in counts]
    solved = np.linalg.solve(np.array(list(rows)), times)
    return float(seconds[min(seconds)] / (np.array(terms(gpus)) @ solved))


def judge(case: Case, seen) -> str:
    """Compare the efficiency of each step; the first two are those of MPT-350m."""
    [rank] = seen
    table, expected = case.given["table"], case.expected
    shares = [number_of(answer["returned"]) for answer in rank["answers"]]
    clue = {"lost": dict(enumerate(map(_lost, shares, expected)))}
    for row, share, right, answer in zip(table, shares, expected, rank["answers"]):
        fill = {"gpus": row[1], "counts": listed(sorted(row[0]))}
        if share is None:
            returned = shown(answer["returned"])
            raise _TEXTS.wrong("no number", returned=returned, **fill)
        if abs(share - right) > _CLOSE:
            fill |= {"returned": share, "expected": right}
            why = "speed-up" if share > 1.5 else "terms"
            if all(map(_is_rounded, shares, expected)):
                why = "rounded"
            raise _TEXTS.wrong("other share", why=why, clue=clue, **fill)
    if any(answer["changed"] for answer in rank["answers"]):
        raise _TEXTS.wrong("changed")
    words = f"{expected[0]:.1%} on 128 GPUs (published: {_PUBLISHED:.1%})"
    return f"{words} and {expected[1]:.1%} on 256"


def failed(case: Case, wrong: Failed) -> str:
    """Say what these times have that others have not, where they make it raise."""
    for kind, name in _RAISED.items():
        if kind in wrong.error.kind and not wrong.hint:
            wrong.hint = _TEXTS.hint(name)
    raise wrong


def _is_rounded(share, right):
    """Whether this is the right share in whole per cent, or in tenths."""
    if share is None or abs(share - right) >= 0.1:
        return False
    return abs(100 * share - round(100 * share)) < 1e-6


def _lost(share, right):
    """How large the loss that was found is, in units of the right one."""
    if share is None or share <= 0:
        return None
    return (1 / share - 1) / (1 / right - 1)
