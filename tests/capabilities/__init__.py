"""What virtual GPUs can, row by row, each with a function that proves it.

`python -m tests.capabilities` writes the page docs/virtual-gpus.md from the rows and
from head.md; tests/test_capabilities.py proves each row, and that the page is up to
date. A new row is a function in the module of its area, with `@works(what, sentence)`,
`@modelled`, `@refused` or `@absent` above it; a new area is a module, named in AREAS.
"""

from pathlib import Path

from tests import tables
from tests.capabilities import (
    clock,
    copies,
    devices,
    files,
    kinds,
    memory,
    modules,
    optimizers,
    precision,
    random_numbers,
)
from tests.capabilities.rows import KINDS, ROWS
from tests.test_vgpu_operators import defined

# in the order of the page
AREAS = {
    "Devices": devices,
    "Memory": memory,
    "Time": clock,
    "Copies": copies,
    "Random numbers": random_numbers,
    "Modules and autograd": modules,
    "Types of numbers": precision,
    "Optimizers": optimizers,
    "Files": files,
    "Kinds of tensors": kinds,
}
PAGE = Path(__file__).parents[2] / "docs/virtual-gpus.md"
HEAD = Path(__file__).with_name("head.md")


def page() -> str:
    """The text of docs/virtual-gpus.md."""
    words = "\n".join(f"- *{kind}*: {meaning}." for kind, meaning in KINDS.items())
    text = HEAD.read_text(encoding="utf-8")
    parts = [text.format(operators=_operators(), kinds=words)]
    for title, area in AREAS.items():
        table = [_line(row) for row in ROWS if row.prove.__module__ == area.__name__]
        parts.append("\n".join([f"\n## {title}\n", _TOP, *table, ""]))
    return "".join(parts)


_TOP = "| what | | in a sentence |\n|---|---|---|"


def _line(row):
    sentence = f"“{row.sentence}”" if row.kind == "refused" else row.sentence
    return f"| {row.what} | {row.kind} | {sentence} {row.instead}".rstrip() + " |"


def _operators():
    """How many of PyTorch's operators agree, in a sentence."""
    rows = defined(tables.read("operators")["rows"])
    agree = sum(bool(reached) for reached, _ in rows.values())
    return f"Of its database of {len(rows)} operators, {agree} agree with the CPU."
