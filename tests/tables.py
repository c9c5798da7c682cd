"""Tables of what takes long or is told on pages: each is made by a command."""

import json
from datetime import date
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).with_name("tables")


def write(name: str, rows: dict, **head: str) -> Path:
    """Write the table `name`, a line for each row; its path comes back.

    `head` goes above the rows, beside the day and the version of torch.
    """
    made, torch = str(date.today()), version("torch").partition("+")[0]
    lines = [f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items()]
    above = json.dumps({"made": made, "torch": torch, **head})
    text = above[:-1] + ', "rows": {\n' + ",\n".join(lines) + "\n}}\n"
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    return path


def read(name: str) -> dict:
    """The table `name`: `made`, `torch`, what else is above the rows, and `rows`."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
