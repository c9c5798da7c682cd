"""Exercise 5.1: several processes count, and no count is lost."""

import tempfile
from collections import Counter
from collections.abc import Sequence

import torch

from course_lib.exercises import baseline
from course_lib.exercises.attempt import Attempt, Wrong
from course_lib.exercises.stages.stage05.company import Company
from course_lib.exercises.stages.stage05.counting_mistakes import why_failed, why_lost
from course_lib.exercises.stages.stage05.splitting import splitting
from course_lib.exercises.stages.stage05.watching import (
    refuse_floats,
    refuse_one_by_one,
    refuse_unfinished,
    watched,
)
from course_lib.text import short

# all begin with the same label, so that all want to change the same number
CASES = (
    ([3, 3, 3, 1, 4, 1, 5], [3, 3, 3, 3, 9, 2, 6, 5, 3], [3, 3, 3, 5, 8], [3, 3, 3]),
    ([0, 0, 0, 0, 7, 7], [0, 0, 0, 0, 7, 7, 8, 2]),
)
_START = "Give each share to a process of its own: mp.Process(target=..., args=...)."


class Share(Sequence):
    """The labels of one process; who reads them is noted."""

    company = None  # of the rank, and of all that are forked from it

    def __init__(self, labels):
        self._labels = labels

    def __len__(self):
        return len(self._labels)

    def __getitem__(self, index):
        label = self._labels[index]
        if self.company:
            self.company.reads[self.company.own] += 1
        return label

    def __repr__(self):
        return f"a share of {len(self)} labels"


@baseline.settled()
def check_count(attempt: Attempt) -> str:
    """Compare the counts; each write is held until others have read what it read."""
    for shares in CASES:
        with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
            (seen,) = attempt(_count, shares, folder, world_size=1, why=why_failed)
        for judge in (_judge_value, _judge_ends, _judge_counts, _judge_work):
            judge(seen, shares)
    total = sum(map(len, CASES[0]))
    return (
        f"4 and 2 processes count at the same time, and none of {total} labels is lost"
        " although each write came late"
    )


def _count(rank, world_size, answer, /, *given):
    shares, folder = given
    company = Share.company = Company()
    with watched(company, answer, folder):
        with splitting(company):
            value = answer([Share(share) for share in shares])
        running = len(company.others())
        counts, said = _numbers(value), short(value)
    names = ("reads", "writes", "bare", "own_lock", "shared_lock", "failed", "met")
    seen = {name: company.column(name) for name in names}
    return seen | {
        "counts": counts,
        "said": said,
        "running": running,
        "told": company.told,
        "forks": company.forks,
        "most": int(company.most[0]),
        "shared": torch.is_tensor(value) and value.is_shared(),
        "tensor": torch.is_tensor(value),
        "locks": len(company.locks),
        "threads": int(company.threads.any()),
        "parent_reads": int(company.reads[0]),
    }


def _numbers(value):
    """Ten whole numbers, as they are at this moment, or None."""
    try:
        counts = torch.as_tensor(value).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        return None
    if counts.shape != (10,) or not bool(counts.double().isfinite().all()):
        return None
    return counts.tolist()


def _judge_value(seen, shares):
    if seen["counts"] is None:
        raise Wrong(
            f"count returned {seen['said']}, expected i64[10]",
            "Return the counts: ten numbers, one for each label from 0 to 9.",
        )


def _judge_ends(seen, shares):
    if seen["forks"] < len(shares):
        raise Wrong(
            f"count started {seen['forks'] or 'no'} processes for {len(shares)} shares",
            _START,
        )
    refuse_unfinished(seen, "the counts are read too early")


def _judge_counts(seen, shares):
    expected = Counter(label for share in shares for label in share)
    total, found = sum(map(len, shares)), seen["counts"]
    if found == [expected[label] for label in range(10)]:
        return
    lost = total - sum(found)
    if lost > 0:
        raise Wrong(
            f"of {total} labels {lost:g} were lost: {len(shares)} processes counted"
            f" {sum(found):g}",
            why_lost(seen, lost == total),
        )
    label = next(n for n in range(10) if found[n] != expected[n])
    raise Wrong(
        f"label {label} was counted {found[label]:g} times, expected {expected[label]}",
        "Each label of each share adds 1 to its own number, once."
        if lost
        else "The sum is right, but not the single numbers: counts[label] is how often"
        " `label` occurs in all shares together.",
    )


def _judge_work(seen, shares):
    if not any(seen["reads"]) and not any(seen["writes"]):
        raise Wrong(
            f"the process that calls count read all {seen['parent_reads']} labels"
            " itself",
            "The numbers are right, but the other processes had nothing to do. Each of"
            " them goes through its own share.",
        )
    refuse_one_by_one(seen)
    refuse_floats(seen["counts"])
