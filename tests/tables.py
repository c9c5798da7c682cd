"""Tables of what takes too long for every test run: dated, and tied to their sources.

A table is made by a command of its own and committed; it holds a hash of the code that
its results belong to, without comments and docstrings. When that changes, its test is
red until the table is made anew.
"""

import json
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks.report import digest

FOLDER = Path(__file__).with_name("tables")


def of_virtual_gpus(name: str) -> str:
    """A hash of what the table `name`, made by a module of tests/, belongs to."""
    return digest(["course_lib/accelerators/vgpu/*.py", f"tests/{name}.py"])


def write(name: str, stamp: str, rows: dict) -> Path:
    """Write the table `name`, a line for each row; its path comes back.

    `stamp` is a hash of what the results belong to.
    """
    head = {
        "made": str(date.today()),
        "torch": version("torch").partition("+")[0],
        "sources": stamp,
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


def refuse_stale(name: str, stamp: str, command: str) -> None:
    """Raise `AssertionError` if what a table belongs to, or torch, has changed."""
    table = read(name)
    now = version("torch").partition("+")[0]
    assert (table["sources"], table["torch"]) == (stamp, now), (
        f"tests/tables/{name}.json of {table['made']} (torch {table['torch']}) was made"
        f" from other sources than those of today. Make it anew and look at what"
        f" differs: {command}"
    )
