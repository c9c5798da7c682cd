"""What the book folds: answers of guesses below their questions, hints below checks."""

import copy
import html
import re
from collections.abc import Callable
from typing import NamedTuple

from docs.book import outputs
from docs.book.errors import BookError

_ASKS = re.compile(r'(\w+) = cl\.guess\(\s*"([^"]+)"')
_CHECKS = re.compile(r'cl\.check\("([^"]+)"')
_ASKED = re.compile(r"<b>(.*?)</b><br>(.*?)<br>", re.DOTALL)
# nothing before the call but a line of options
_ONLY_ASKS = re.compile(r"(\w+ = [^(\n]+\n)?\w+ = cl\.guess\(")
_OPENS, _ENDS = '<details class="answer">', "</details>"
CHOOSE = "Choose one, read on, and open the answer."


class Question(NamedTuple):
    """A guess as its cell has stored it."""

    name: str
    text: str
    options: list[str]

    def page(self) -> str:
        """The question and its options, in place of buttons."""
        rows = "".join(f"<li>{html.escape(option)}</li>" for option in self.options)
        asked = f"<p><b>{html.escape(self.text)}</b></p><ul>{rows}</ul>"
        return f'<div class="guess">{asked}<p class="note">{CHOOSE}</p></div>'


def with_answers(cells: list[dict], why: Callable) -> list[dict]:
    """The cells, with all folded that tells the answer to a guess.

    That is what runs say from the question on until it is answered, and what follows
    the answer up to the end of the first paragraph. `why(name)` has a sentence for each
    wrong option of a guess.

    Errors: `BookError` for a question whose cell was not run.
    """
    result, waiting, answered = [], {}, []  # questions by the variable that holds them
    for cell in cells:
        if cell["cell_type"] != "code":
            result += _explained(cell, result) if answered else [cell]
            answered = []
            continue
        now = [n for n in waiting if re.search(rf"\b{n}\.was\(", cell["source"])]
        answers = [waiting.pop(name) for name in now]
        for question in answers:
            _add_reasons(cell, why(question.name))
        answered += answers
        head = "Answer" if answers else "Output that tells the answer"
        result += _folded(cell, head, answered or list(waiting.values()))
        if asks := _ASKS.search(cell["source"]):
            waiting[asks[1]] = _ask(cell, asks[2])
    return result


def _explained(cell, result):
    """The text behind an answer, without the paragraph that goes into the fold."""
    said, cell["source"] = first_paragraph(cell["source"])
    if said and result[-1]["source"] == _ENDS:
        result.insert(-1, _text(cell, said, "said"))
    return [cell] if cell["source"] else []


def first_paragraph(text: str) -> tuple[str, str]:
    """The first paragraph of a text and the rest; none before a heading or a fold.

    One that ends in a colon takes along what it announces.
    """
    if text.startswith(("#", "<details")):
        return "", text
    parts, count = text.split("\n\n"), 1
    if parts[0].endswith(":") and parts[1:] and not parts[1].startswith("#"):
        count = 2
    while sum(part.count("```") for part in parts[:count]) % 2 and parts[count:]:
        count += 1  # an empty line in code ends nothing
    return "\n\n".join(parts[:count]), "\n\n".join(parts[count:])


def with_hints(cells: list[dict], hints: Callable) -> list[dict]:
    """The cells, and below each check its hints; `hints(exercise)` are Markdown."""
    result = []
    for cell in cells:
        result.append(cell)
        check = _CHECKS.search(cell["source"]) if cell["cell_type"] == "code" else None
        if check:
            result.append(_text(cell, hint_page(hints(check[1])), "hints"))
    return result


def hint_page(hints: list[str]) -> str:
    """Folded hints, each by itself."""
    folds = [
        f'<details class="hint">\n<summary>Hint {number} of {len(hints)}</summary>\n\n'
        f"{hint}\n\n</details>\n"
        for number, hint in enumerate(hints, 1)
    ]
    return "\n".join(folds)


def _ask(cell, name):
    """The question that a cell asks, which it now shows without buttons."""
    asked = _ASKED.match("".join(map(outputs.html_of, cell["outputs"])))
    if not asked:
        raise BookError(f"the guess {name} has no stored output: run its lesson")
    text, options = map(html.unescape, asked.groups())
    question = Question(name, text, options.split(" · "))
    cell["outputs"] = [outputs.page(question.page())]
    if _ONLY_ASKS.match(cell["source"]):
        _hide_code(cell)
    return question


def _folded(cell, head, questions):
    """A cell as several: its code, then its outputs folded under the questions."""
    if not (questions and cell["outputs"]):
        return [cell]
    asked = html.escape(" ".join(question.text for question in questions))
    opens = f"{_OPENS}\n<summary>{head}: {asked}</summary>"
    output = copy.deepcopy(cell) | {"id": _id(cell, "output")}
    cell["outputs"] = []
    _hide_code(output)
    edges = _text(cell, opens, "opens"), _text(cell, _ENDS, "ends")
    return [cell, edges[0], output, edges[1]]


def _text(cell, source, word):
    """A new text cell that belongs to a cell."""
    new = {"cell_type": "markdown", "metadata": {}, "source": source}
    return new | {"id": _id(cell, word)}


def _id(cell, word):
    return f"{cell['id'][:50]}-{word}"


def _hide_code(cell):
    cell["metadata"].setdefault("tags", []).append("remove-input")


def _add_reasons(cell, reasons):
    """Say behind the answer why the other options are wrong."""
    rows = "".join(
        f"<dt>{html.escape(option)}</dt><dd>{_plain(reason)}</dd>"
        for option, reason in reasons.items()
    )
    if rows:
        kinds = [output["output_type"] for output in cell["outputs"]]
        place = kinds.index("execute_result") + 1 if "execute_result" in kinds else 0
        cell["outputs"].insert(place, outputs.page(f'<dl class="why">{rows}</dl>'))


def _plain(text):
    return re.sub("`(.+?)`", r"<code>\1</code>", html.escape(text))
