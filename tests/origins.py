"""`make origins`: where the numbers in the texts of lessons come from.

A number is at home if a cell near by has it, in its code or in what it showed: as it
is, rounded, or as a percentage. One of three digits or more may come from any cell of
its lesson: by chance few would be there. For the others a file of the lesson's number
in `tests/tables/origins/` says where they come from, under the id of the text cell:

    [full-read]
    1,048,576 = is 2**20
    [exa-text]
    325.8 = cites Kurth 2018
    1,560 = file benchmarks/batch_size.md
    256 = cell study

`is` computes it anew, `cites` names an author whom the lesson cites, `file` a file and
`cell` a cell of the lesson that has it. None need years, numbers of lessons and
exercises, code between backticks, bits ("32 bits"), and whole numbers up to twelve
without a unit ("three ranks", "4 devices").
"""

import ast
import json
import operator
import re
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from typing import NamedTuple

from tests.terms import LEFT_OUT, LESSONS, ROOT

# how many cells away a number may be
NEAR = 4
# of so many digits, beside zeros at its ends, a number may stand anywhere in the lesson
LONG = 3
TABLES = ROOT / "tests/tables/origins"
_DIGITS = r"\d[\d,]*(?:\.\d+)?"
_NUMBER = re.compile(
    rf"(?<![\w.,-])(?P<number>{_DIGITS})(?P<unit>\s?[%×‰]|\s?[kMGT]?i?B\b|\s?[µmn]?s\b)?"
)
_ANY_NUMBER = re.compile(r"\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?")
# code, places of links, numbers of lessons and exercises, years of books and papers
_LEFT_OUT = re.compile(
    r"`[^`]*`|\]\([^)]*\)|<[^>]+>|\b(?:stage|lesson|exercise)s?(?:(?:,|\sand|\sor|\sto)?\s\d[\d.]*[b-d]?)+"
    r"|\b0\d[b-d]?\b|\b(?:19|20)\d\d\b|\b\d+ bits?\b",
    re.IGNORECASE,
)
_HIDDEN = re.compile(
    r"base64,[A-Za-z0-9+/=\s]+|<(script|style|svg)\b.*?</\1>", re.DOTALL
)
_SHOWN = re.compile(r'"[^"]*"|>[^<]*<')
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class Number(NamedTuple):
    """A number in a text: as it is written, its unit, and where it stands."""

    lesson: str
    cell: str
    written: str
    unit: str
    words: str

    def __str__(self):
        return f"[{self.lesson} {self.cell}] {self.written}: … {self.words} …"


def numbers(notebook: dict, lesson: str) -> Iterator[Number]:
    """The numbers in the text cells of a lesson that need an origin."""
    for cell in notebook["cells"]:
        if cell["cell_type"] != "markdown" or cell["id"] in LEFT_OUT:
            continue
        text = _LEFT_OUT.sub(" ", "".join(cell["source"]))
        for match in _NUMBER.finditer(text):
            written = match["number"].rstrip(",")
            unit = (match["unit"] or "").strip()
            if unit or not _is_count(written):
                words = " ".join(
                    text[max(0, match.start() - 30) : match.end() + 15].split()
                )
                yield Number(lesson, cell["id"], written, unit, words)


def _is_count(written):
    return written.isdigit() and int(written) <= 12


def values(cells: list[dict]) -> frozenset[float]:
    """All numbers in the code of cells and in what they have shown."""
    found = set()
    for cell in cells:
        if cell["cell_type"] == "code":
            texts = ["".join(cell["source"]), *map(_shown, cell["outputs"])]
            found.update(value for text in texts for value in _values(text))
    return frozenset(found)


def _shown(output):
    """The words of an output, without the places of what is drawn."""
    texts = ["".join(output.get("text", "")), output.get("evalue", "")]
    texts += output.get("traceback", [])
    for kind, content in output.get("data", {}).items():
        content = "".join(content) if isinstance(content, list) else str(content)
        if kind == "text/plain":
            texts.append(content)
        elif kind == "text/html":
            texts += _SHOWN.findall(_HIDDEN.sub("", content))
    for name, content in output.get("metadata", {}).items():
        texts.append(f"{name} {content}")
    return " ".join(texts)


def _values(text):
    for match in _ANY_NUMBER.findall(text):
        yield float(match.rstrip(",").replace(",", "").replace("_", ""))


def at_home(number: Number, known: frozenset[float]) -> bool:
    """Whether a cell has a number: itself, or one that rounds to it, or its share."""
    scales = (1, 100) if number.unit == "%" else (1,)
    return any(
        _rounds_to(value * scale, number.written) for scale in scales for value in known
    )


def _rounds_to(value, written):
    """Whether a value, written with as many digits as a number, is this number.

    >>> _rounds_to(33.554, "33.6"), _rounds_to(1234, "1,200"), _rounds_to(33.4, "33.6")
    (True, False, False)
    """
    places = len(written.partition(".")[2])
    return f"{value:,.{places}f}".replace(",", "") == written.replace(",", "")


@cache
def table(lesson: str) -> ConfigParser:
    """The origins of those numbers of a lesson that no cell near by has."""
    parser = ConfigParser(delimiters="=", interpolation=None)
    parser.read(TABLES / f"{lesson}.ini", encoding="utf-8")
    return parser


def origin(number: Number, notebook: dict) -> str:
    """Say what is wrong with the origin of a number that no cell near by has, or ''."""
    said = table(number.lesson).get(number.cell, number.written, fallback="")
    kind, _, what = said.partition(" ")
    if kind not in _ORIGINS:
        return f"{number}: comes from no cell near by and no line of its table"
    if not _ORIGINS[kind](what, number, notebook):
        return f"{number}: its table says {said!r}, which is not so"
    return ""


def _is(formula, number, _):
    return _rounds_to(_computed(ast.parse(formula, mode="eval").body), number.written)


def _cites(names, _, notebook):
    text = words(notebook)
    return all(re.search(rf"\b{re.escape(name)}\b", text) for name in names.split())


def _file(path, number, _):
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.search(rf"(?<![\d.]){re.escape(number.written)}(?!\d)", text)


def _cell(name, number, notebook):
    found = [cell for cell in notebook["cells"] if cell["id"] == name]
    return at_home(number, values(found))


_ORIGINS = {"is": _is, "cites": _cites, "file": _file, "cell": _cell}


def _computed(node):
    """The value of a formula of numbers, + − * / and **."""
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_computed(node.left), _computed(node.right))
    if isinstance(node, ast.Constant):
        return node.value
    raise ValueError(f"no formula of numbers: {ast.unparse(node)}")


def lessons() -> Iterator[tuple[str, dict]]:
    """The number of each lesson and its notebook."""
    for path in sorted(LESSONS.glob("*.ipynb")):
        yield path.stem.partition("_")[0], json.loads(path.read_text(encoding="utf-8"))


def homeless(notebook: dict, lesson: str) -> list[Number]:
    """The numbers of a lesson that none of its cells has."""
    cells = notebook["cells"]
    places = {cell["id"]: place for place, cell in enumerate(cells)}
    anywhere = values(cells)

    def found(number):
        if len(re.sub(r"\D", "", number.written).strip("0")) >= LONG:
            return at_home(number, anywhere)
        place = places[number.cell]
        return at_home(number, values(cells[max(0, place - NEAR) : place + NEAR + 1]))

    return [number for number in numbers(notebook, lesson) if not found(number)]


def words(notebook: dict) -> str:
    """All text of a lesson."""
    return "\n".join(
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown"
    )


def main() -> None:
    """Print each number that no cell has, with what the table says of it."""
    for lesson, notebook in lessons():
        for number in homeless(notebook, lesson):
            print(origin(number, notebook) or f"{number}: in the table")


if __name__ == "__main__":
    main()
