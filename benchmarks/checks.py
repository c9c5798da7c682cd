"""What checks say of answers that were written without having seen them, and when.

Each exercise has in its folder in tests/exercises/, in `unseen.toml`, right and wrong
answers from people who knew the text of the task alone; a wrong one came with the line
or quantity in which it differs. Whether a hint fits, which is whether it names that,
people have judged: `judged.json` has for
each answer which sections and hints of the check's texts they have read, by their
names: who mends a sentence asks nobody again. What nobody has read counts as a hint
that does not fit, and is listed.
"""

import datetime
import hashlib
import json
import multiprocessing
import os
import re
import statistics
import string
import subprocess
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import torch

from benchmarks import report
from course_lib.authoring.code import plain
from course_lib.exercises import attempt, fingerprints, folders
from course_lib.exercises.checking import exercises
from tests import answers
from tests.checking import answer_cell, cells, check_cell, notebook_of, outcome
from tests.kernels import Kernel, error

KEPT = report.ROOT / "benchmarks/checks.json"
_LIMIT = 10  # seconds for ranks that wait for each other
_HEADS = ["exercise", "accepted", "refused", "fitting hints", "new kernel", "again"]
_TESTS = ["tests/test_checks.py", "tests/test_judges.py", "-q", "--dist", "load"]
_TESTS += ["-p", "no:cacheprovider"]
_PAUSE = 3  # seconds in which a reader of the set-up cell does not run the next


def run(rounds: int | None) -> report.Report:
    """The table of all exercises, and the answers that are to be read or mended.

    An exercise whose files are as they were keeps what was measured then: `KEPT`.
    Remove that file, and all are measured anew.
    """
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept = {name: kept.get(name, {}) for name in exercises()}
    stale = [name for name in kept if kept[name].get("digest") != digest(name)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        told = dict(zip(stale, pool.map(asked, stale)))
    for name in stale:
        kept[name] = _measured(name, told[name], rounds or 3)
    text = report.Report(_page(kept))
    text.files = {KEPT: json.dumps(kept, indent=1, ensure_ascii=False) + "\n"}
    return text


def digest(exercise: str) -> str:
    """A hash of what decides the row of an exercise: its code and answers, no words.

    How its hints were judged counts, too: that is a number of the row.
    """
    parts = [
        report.digest([f"course_lib/exercises/{folders.folder_name(exercise)}/*.py"]),
        {name: list(section) for name, section in folders.texts(exercise).items()},
        [{**row, "hint": ""} for row in fingerprints.known(exercise)],
        sorted((one.id, _code(one.source)) for one in _stored(exercise)),
        {name: _code(row["source"]) for name, row in _unseen(exercise)},
        answers.judged(exercise),
    ]
    told = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _stored(exercise):
    every = answers.right() + answers.wrong()
    return [one for one in every if one.exercise == exercise]


def _unseen(exercise):
    kinds = answers.unseen(exercise)
    for kind in ("right", "wrong"):
        yield from ((f"{kind} {name}", row) for name, row in kinds[kind].items())


def _code(source):
    """An answer without its comments; as it is if it is no Python."""
    try:
        return plain(source)
    except SyntaxError:
        return source


def _measured(exercise, told, rounds):
    """What is kept of an exercise."""
    counts, missed = _counts(exercise, *told)
    first, again = zip(*(seconds(exercise) for _ in range(rounds)))
    return {
        "digest": digest(exercise),
        "date": str(datetime.date.today()),
        "counts": counts,
        "times": [statistics.median(column) for column in (first, again)],
        "missed": missed,
        "others": _other_cases(exercise),
    }


def _page(kept):
    """The table, and below it what is to be read or mended."""
    rows = [
        [name, *map(_of, row["counts"]), *(f"{t:.1f} s" for t in row["times"])]
        for name, row in kept.items()
    ]
    counts = zip(*(row["counts"] for row in kept.values()))
    times = zip(*(row["times"] for row in kept.values()))
    together = [_of(map(sum, zip(*column))) for column in counts]
    rows.append(["all", *together, *(f"at most {max(t):.1f} s" for t in times)])
    rest = [f"- {name} {line}\n" for name in kept for line in kept[name]["missed"]]
    left_out = [
        f"- {exercise} {name}: {row['why']}\n"
        for exercise in exercises()
        for name, row in answers.unseen(exercise).get("undecided", {}).items()
    ]
    return (
        "# Checks, and answers that were written without having seen them\n\n"
        "Of each exercise: right answers accepted, wrong ones refused, hints that name"
        " the line or quantity in which an answer differs; what the solution's check"
        f" takes in a new kernel, {_PAUSE} s after the set-up cell, and again (the"
        " median).\n\n"
        f"{report.table(_HEADS, rows)}\n{report.conditions()}\n"
        f"{_days(kept)}\n{_others(kept)}\n"
        f"Still to be read or mended: {len(rest)}.\n\n{''.join(rest)}\n"
        f"Left out, because the text allows them: {len(left_out)}.\n\n"
        f"{''.join(left_out)}"
    )


def _days(kept):
    """How many rows are of which day."""
    days = Counter(row["date"] for row in kept.values())
    parts = [f"{count} of {day}" for day, count in sorted(days.items())]
    return (
        "A row is measured anew when the code of its exercise changes: its check, its"
        f" known mistakes or its answers. Rows: {', '.join(parts)}.\n"
    )


def _others(kept):
    ends = Counter()
    for row in kept.values():
        ends.update(row["others"])
    told = ", ".join(f"{count:,} {end}" for end, count in ends.items())
    return (
        f"Each of {len(answers.right())} stored right and {len(answers.wrong())} wrong"
        " answers with its verdict and hint, and with the cases of three other seeds;"
        f" 10,000 values that nobody expects for each judge: {told}.\n"
    )


def _other_cases(exercise) -> dict[str, int]:
    """How many tests of stored answers and fuzzed values end how, with other seeds."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", str(os.cpu_count()), *_TESTS]
        + ["-k", f"[{exercise}- or [{exercise}]"],  # 4.1, and not 4.10
        cwd=report.ROOT,
        env=os.environ | {"EVERY_CASE": "1"},
        capture_output=True,
        text=True,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    return {end: int(n) for n, end in re.findall(r"(\d+) (passed|failed)", last)}


def _of(pair):
    return "{} of {}".format(*pair)


def _counts(exercise, right, wrong):
    """Accepted, refused and fitting, each of how many; a line for each other one."""
    refused = [name for name, told in right.items() if told.status != "right"]
    accepted = [name for name, told in wrong.items() if told.status != "not yet"]
    others = [name for name in wrong if name not in accepted]
    misses = [name for name in others if not fits(exercise, name, wrong[name])]
    counts = (
        (len(right) - len(refused), len(right)),
        (len(others), len(wrong)),
        (len(others) - len(misses), len(others)),
    )
    lines = [f"{name}: refused, {right[name].text}" for name in refused]
    lines += [f"{name}: accepted" for name in accepted]
    lines += [f"{name}: not fitting or not read, {wrong[name].text}" for name in misses]
    return counts, lines


@dataclass(frozen=True)
class Told:
    """What a check said of an answer, and the names of the texts that say it."""

    status: str
    text: str
    reason: str


def asked(exercise: str) -> tuple[dict, dict]:
    """What the check says of each unseen answer, by name: right ones, wrong ones."""
    torch.set_num_threads(1)
    told = ({}, {})
    with _named_texts():
        for kind, names in zip(("right", "wrong"), told):
            for name, row in answers.unseen(exercise)[kind].items():
                found = outcome(exercise, row["source"], timeout=_LIMIT)
                names[name] = Told(found.status, _read(found), _reason(found))
    return told


@contextmanager
def _named_texts():
    """Each text that a check may say has its name before it, in a block."""
    read, known = folders.texts, fingerprints.known
    failures = {
        kind: {name: f"⟦{name}⟧{hint}" for name, hint in rows.items()}
        for kind, rows in attempt._HINTS.items()
    }
    named = mock.patch.object(folders, "texts", lambda task: _sections(read(task)))
    mistakes = mock.patch.object(fingerprints, "known", lambda task: _rows(known(task)))
    with named, mistakes, mock.patch.object(attempt, "_HINTS", failures):
        yield


def _sections(parser):
    """The sections of a file of texts, with names before sentences and hints."""
    named = {name: dict(parser[name]) for name in parser.sections()}
    for name, section in named.items():
        for key, text in section.items():
            # the own hint of a section needs none
            if name == "hints" or key == "found":
                section[key] = f"⟦{key if name == 'hints' else name}⟧{text}"
    return named


def _rows(mistakes):
    names = [f"⟦mistake {row['name']}⟧" for row in mistakes]
    return [{**row, "hint": name + row["hint"]} for row, name in zip(mistakes, names)]


def _reason(found) -> str:
    """Which section said it and for which mistake; else the error or who raised it."""
    names = re.findall("⟦(.*?)⟧", f"{found.message}\n{found.hint}")
    if found.wrong is None:
        return ""
    if found.wrong.failed:
        return ", ".join([found.wrong.error.kind, *names])
    if f"⟦{names[0] if names else ''}⟧" not in found.message:
        *_, (frame, _) = traceback.walk_tb(found.wrong.__traceback__)
        names.insert(0, frame.f_code.co_name.strip("_"))
    return ", ".join(dict.fromkeys(names))


def _read(found) -> str:
    """What a learner reads of an outcome, in one line, without the lines of code."""
    sentence = found.message.partition("\n\n")[0]
    text = " ".join(f"{sentence} Hint: {found.hint}".split())
    return re.sub("⟦.*?⟧", "", text)


def fits(exercise: str, name: str, told: Told) -> bool:
    """True if people have read this hint and found that it names what differs."""
    return answers.judged(exercise).get(name, {}).get(told.reason, False)


def seconds(exercise: str) -> tuple[float, float]:
    """How long the check of the solution takes in a new kernel, and once more."""
    notebook = notebook_of(exercise)
    solved = cells(report.ROOT / "solutions" / notebook.name)
    kernel = Kernel()
    try:
        given = [name for name in solved if not name.startswith(("check-", "summary"))]
        own = answer_cell(exercise).rstrip(string.ascii_lowercase)
        for name in given[: given.index(answer_cell(exercise)) + 1]:
            # 4.9e builds on the answer to 4.9d
            if not name.startswith("answer-") or name.startswith(own):
                kernel.run(solved[name], seconds=120)
            if name == "setup":
                time.sleep(_PAUSE)
        return tuple(_timed(kernel, solved[check_cell(exercise)]) for _ in range(2))
    finally:
        kernel.close()


def _timed(kernel, source):
    began = time.perf_counter()
    messages = kernel.run(source, seconds=120)
    took = time.perf_counter() - began
    assert error(messages) is None, error(messages)
    return took
