"""Tables of what takes too long for every test run: dated, and tied to their sources.

A table is made by a command of its own and committed; it holds a hash of the code that
its results belong to, without comments and docstrings. When that changes, its test is
red until the table is made anew.
"""

import json
from collections.abc import Iterable
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks.report import digest

FOLDER = Path(__file__).with_name("tables")


def write(name: str, sources: Iterable[str], rows: dict) -> Path:
    """Write the table `name`, a line for each row; its path comes back."""
    head = {
        "made": str(date.today()),
        "torch": version("torch").partition("+")[0],
        "sources": digest(sources),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items()]
    text = json.dumps(head)[:-1] + ', "rows": {\n' + ",\n".join(lines) + "\n}}\n"
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    return path


def read(name: str) -> dict:
    """The table `name`: `made`, `torch`, `sources`, `rows`."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def refuse_stale(name: str, sources: Iterable[str], command: str) -> None:
    """Raise `AssertionError` if the sources of a table, or torch, have changed."""
    table = read(name)
    now = version("torch").partition("+")[0]
    assert (table["sources"], table["torch"]) == (digest(sources), now), (
        f"tests/tables/{name}.json of {table['made']} (torch {table['torch']}) was made"
        f" from other sources than those of today: {', '.join(sources)}. Make it anew"
        f" and look at what differs: {command}"
    )
