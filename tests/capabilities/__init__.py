"""What virtual GPUs can, row by row, each with a function that proves it.

`make pages` writes the page docs/virtual-gpus.md from the rows and from head.md;
tests/test_capabilities.py proves each row. A new row is a function in the module of its
area, with `@works(what, sentence)`, `@modelled`, `@refused` or `@absent` above it; a
new area is a module, named in AREAS.
"""

from pathlib import Path

from benchmarks import published
from course_lib.accelerators.hardware import GPUS
from course_lib.text import listed
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
    ranks,
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
    "Ranks": ranks,
}
PAGE = Path(__file__).parents[2] / "docs/virtual-gpus.md"
HEAD = Path(__file__).with_name("head.md")


def page() -> str:
    """The text of docs/virtual-gpus.md."""
    words = "\n".join(f"- *{kind}*: {meaning}." for kind, meaning in KINDS.items())
    text = HEAD.read_text(encoding="utf-8")
    parts = [
        text.format(
            operators=_operators(),
            transforms=_transforms(),
            published=_published(),
            later=_later(),
            gpus=listed(GPUS),
            kinds=words,
        )
    ]
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


def _transforms():
    """How many cases of nested transforms agree, in a sentence."""
    rows = tables.read("nestings")["rows"].values()
    counts = [row for row in rows if isinstance(row, dict)]
    total = sum(sum(row.values()) for row in counts)
    equal = sum(row["equal"] for row in counts)
    alone = sum(row.get("refused on the device only", 0) for row in counts)
    return (
        f"Under jvp, vjp, vmap and two of them nested, {equal:,} of {total:,} cases"
        f" equal the CPU's, and {alone} are refused by virtual GPUs alone. The CPU"
        " refuses most of the others, too. None ends the process or gives other"
        " numbers."
    )


def _published():
    """How far modelled times are from published and measured ones, in a sentence."""
    return _errors("Of its {} steps", published.held_back())


def _later():
    """The same of the steps that were measured when all was fixed."""
    return _errors("Of {} that were timed later", published.measured("later"))


def _errors(whose, errors):
    middle, nine = published.middle_and_nine_in_ten(errors)
    return (
        f"{whose.format(len(errors))} the median error is {100 * middle:.0f} %, nine in"
        f" ten are within {100 * nine:.0f} %, the largest is"
        f" {100 * max(map(abs, errors)):.0f} %."
    )
