"""A study of batch sizes as plain data: how many steps each training took."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.display import html_table


@dataclass(frozen=True)
class Study:
    """Steps to a target for each batch size, rate and seed.

    `steps` has a table per batch size, a row per rate, a number per seed, None where
    the target was not reached. `where` says when and on what it was measured.
    """

    target: tuple
    rates: tuple
    steps: dict
    where: str = "measured now"

    def best(self) -> dict:
        """Return the best rate of each batch size, and each seed's steps with it."""
        best = {}
        for size in self.steps:
            if whole := self._whole(size):
                rate = min(whole, key=lambda rate: sum(whole[rate]))
                best[size] = rate, whole[rate]
        return best

    def near(self) -> dict:
        """Return the least and largest rate that may be the best of each batch size.

        Their mean steps are within one standard error of those of the best rate.
        """
        ranges = {}
        for size, (_, steps) in self.best().items():
            error = statistics.stdev(steps) / len(steps) ** 0.5 if steps[1:] else 0
            most = statistics.mean(steps) + error
            whole = self._whole(size).items()
            good = [rate for rate, row in whole if statistics.mean(row) <= most]
            ranges[size] = min(good), max(good)
        return ranges

    def _whole(self, size) -> dict:
        """Return the rows, by rate, in which every seed reached the target."""
        rows = zip(self.rates, self.steps[size])
        return {rate: row for rate, row in rows if None not in row}

    def dumps(self) -> str:
        """Return it as JSON, a line per row of numbers, for `load`."""
        return rows_of(asdict(self))

    @classmethod
    def load(cls, path) -> Study:
        """Read a study that was saved."""
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        steps = {int(size): table for size, table in value.pop("steps").items()}
        target, rates = (tuple(value.pop(name)) for name in ("target", "rates"))
        return cls(target, rates, steps, **value)

    def __repr__(self):
        return (
            f"steps to {self.target[0]} {self.target[1]:g} for {len(self.steps)} batch"
            f" sizes, {len(self.rates)} rates ({self.where})"
        )

    def _repr_html_(self):
        heads = "batch size", "best rate", "steps of each seed", "mean", "examples"
        return f"<p>{self!r}</p>{html_table(heads, self._rows())}"

    def _rows(self):
        best = self.best()
        for size in self.steps:
            if size not in best:
                yield f"{size:,}", "none", "not reached with every seed", "", ""
                continue
            rate, steps = best[size]
            mean = sum(steps) / len(steps)
            counts = f"{mean:,.0f}", f"{mean * size:,.0f}"
            yield (
                f"{size:,}",
                f"{rate:.3g}",
                ", ".join(map("{:,}".format, steps)),
                *counts,
            )


def rows_of(value) -> str:
    """Return JSON with a line for each list of numbers."""
    text = json.dumps(value, indent=1)
    # a text holds no line break as such, so no bracket in it begins a list here
    return re.sub(r'\[\n[^][{}"]*\]', lambda m: " ".join(m[0].split()), text) + "\n"
