"""How often a measured time gives the answer of a quiet machine; also beside a load.

A guess that says `timed=True` is answered by a clock, so by the machine that runs it.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks import report

ROUNDS = 20  # quiet; half as many beside the load
LOAD = 4  # busy loops
GOALS = {"quiet": 95, "loaded": 80}  # % of the rounds
TIMED = re.compile(r'(\w+) = cl\.guess\(\s*"([\w-]+)"[^)]*timed=True')
_CARD = re.compile(r'<div style="border-left:[^>]* class="(timed[^"]*)"><b>(.*?)</b>')
# cells that measure what the cell with the answer only reads
_BEFORE = {"07c-pays": ["model"]}
_HEAD = ["guess", "on a quiet machine", "quiet", "loaded", "other answers"]
_INTRODUCTION = """# How often a measured time gives the answer of a quiet machine

The cells that answer a timed guess, run again and again in one kernel: {quiet} rounds,
then {loaded} beside a load of {load} busy loops. Goals: {goals[quiet]} % and
{goals[loaded]} %; below them the experiment is changed, or the guess goes. "Other
answers" came out instead, so many times. {before}
"""


def asked(cells: list) -> dict[str, tuple[str, list[str]]]:
    """The timed guesses of a notebook, by name.

    Each with the id of the cell that asks, and of those that answer it.
    """
    found = {}
    for cell in cells:
        for variable, name in TIMED.findall(cell.source):
            answers = (c.id for c in cells if f"{variable}.was(" in c.source)
            found[name] = cell.id, [*_BEFORE.get(name, []), next(answers)]
    return found


def answer(outputs: list) -> tuple[bool, str] | None:
    """Whether a quiet machine gives the answer that a cell shows, and the answer."""
    pages = ("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    cards = [card.groups() for card in map(_CARD.match, pages) if card]
    return next(((kind == "timed", seen) for kind, seen in cards), None)


def run(rounds: int | None = None) -> str:
    """Run each timed answer quiet and beside the load; the table comes back."""
    quiet = rounds or ROUNDS
    loaded, before = max(1, quiet // 2), psutil.cpu_percent(interval=3)
    rows = []
    for path in sorted((report.ROOT / "notebooks").glob("*.ipynb")):
        rows += [_row(*found) for found in _measured(path, quiet, loaded)]
    words = {"quiet": quiet, "loaded": loaded, "load": LOAD, "goals": GOALS}
    head = _INTRODUCTION.format(before=_before(before), **words)
    return "\n".join([head, report.table(_HEAD, rows), report.conditions()])


def _before(busy):
    """Whether other programs ran already; `busy` in % of all cores."""
    told = f"Before the rounds the cores were {busy:.0f} % busy."
    return told if busy < 10 else f"{told} **Other programs ran: nothing was quiet.**"


def _measured(path, quiet, loaded):
    """(name, answers quiet, answers beside the load) of each timed guess."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    guesses = asked(notebook.cells)
    if not guesses:
        return []
    answers = {name: ([], []) for name in guesses}
    with _kernel(notebook, path) as cell:
        for index, (count, load) in enumerate(((quiet, 0), (loaded, LOAD))):
            with _busy(load):
                for number in range(count):
                    _say(f"{path.stem}: round {number + 1} of {count}, load {load}")
                    for name, (asks, answering) in guesses.items():
                        outputs = [cell(one) for one in (asks, *answering)][-1]
                        answers[name][index].append(answer(outputs))
    _say("\n")
    return [(name, *both) for name, both in answers.items()]


@contextlib.contextmanager
def _kernel(notebook, path) -> Iterator:
    """Runs a notebook as far as its timed guesses need; cells can be run again."""
    from nbclient import NotebookClient

    numbers = {cell.id: number for number, cell in enumerate(notebook.cells)}
    last = max(numbers[a[-1]] for _, a in asked(notebook.cells).values())
    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=300, resources=place)
    with tempfile.TemporaryDirectory(prefix="course_lib") as folder:
        places = {"COURSE_LIB_PROGRESS": str(Path(folder) / "progress")}
        with client.setup_kernel(env=os.environ | places):

            def cell(name):
                number = numbers[name]
                client.execute_cell(notebook.cells[number], number)
                return notebook.cells[number].outputs

            for one in notebook.cells[: last + 1]:
                if one.cell_type == "code" and _needed(one):
                    cell(one.id)
            yield cell


def _needed(cell):
    """False where a cell breaks on purpose or reads the error: no other needs it."""
    breaks = "raises-exception" in cell.metadata.get("tags", [])
    return not breaks and "last_error" not in cell.source


@contextlib.contextmanager
def _busy(count) -> Iterator[list]:
    """So many programs that only take a core."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _row(name, quiet, loaded):
    said = [seen for right, seen in (*quiet, *loaded) if right]
    others = Counter(seen for right, seen in (*quiet, *loaded) if not right)
    usual = Counter(text.rpartition("nearest to ")[2].rstrip(".") for text in said)
    first = usual.most_common(1)[0][0] if usual else "–"
    parts = [_share(quiet, "quiet"), _share(loaded, "loaded")]
    told = "; ".join(f"{text} ({count})" for text, count in others.most_common())
    return [name, first, *parts, told or "–"]


def _share(answers, kind):
    """As `19 of 20`, marked where that is below the goal."""
    right = sum(quiet for quiet, _ in answers)
    below = ", BELOW" if 100 * right < GOALS[kind] * len(answers) else ""
    return f"{right} of {len(answers)}{below}"


def _say(text):
    print(f"\r{text:60}", end="", file=sys.stderr, flush=True)
