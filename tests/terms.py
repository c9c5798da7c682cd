"""`make terms`: the words of docs/glossary.md, where lessons use and explain them.

A term is explained in the first text cell in which it stands alone in italics or in
bold. A term with a remark in parentheses, as "stage (of a pipeline)", has an everyday
meaning, too: only its other spellings are looked for.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt  # comes with rich, which the grader asks for

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs/glossary.md"
LESSONS = ROOT / "notebooks"
# what stands there is a promise, or is made for all lessons alike
LEFT_OUT = "title", "map", "next"
NOWHERE = "–"
# "stage 04" is the fourth lesson and no stage of a pipeline
_NUMBERED = re.compile(r"\b(?:stage|lesson|exercise)s?\s\d\S*", re.IGNORECASE)


class Term(NamedTuple):
    """A row of the glossary; `lesson` is where it says that the term is explained."""

    name: str
    spellings: tuple[str, ...]
    meaning: str
    lesson: str


class Cell(NamedTuple):
    """A text cell: its words, and the phrases that stand out in it."""

    lesson: str
    name: str
    text: str
    phrases: tuple[str, ...]

    def __str__(self):
        return f"{self.lesson} {self.name}"


class Finding(NamedTuple):
    """Where a term is used first and where it is explained; `early`: in this order."""

    term: Term
    used: Cell | None
    explained: Cell | None
    early: bool


def glossary(text: str) -> list[Term]:
    """The rows of the glossary's table."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
    return [_term(*map(str.strip, row)) for row in rows if re.match(r"\d", row[-1])]


def _term(name, others, meaning, lesson):
    words = [*([] if "(" in name else [name]), *others.split(",")]
    plain = (word.strip(" `") for word in words)
    spellings = tuple(word for word in plain if word not in ("", NOWHERE))
    return Term(name, spellings, meaning, lesson)


def cells(notebook: dict, lesson: str) -> list[Cell]:
    """The text cells of a notebook in their order."""
    return [
        Cell(lesson, cell["id"], *prose("".join(cell["source"])))
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown" and cell["id"] not in LEFT_OUT
    ]


def prose(source: str) -> tuple[str, tuple[str, ...]]:
    """The words of Markdown without blocks of code, and what is in italics or bold."""
    words, phrases = [], []
    for block in MarkdownIt().enable("table").parse(source):
        if block.type == "html_block":
            words.append(re.sub(r"<[^>]+>", " ", block.content))
        words += [*_pieces(block.children or [], phrases), "\n"]
    text = "".join(words)
    for title in filter(_is_title, phrases):
        text = text.replace(title, " ")
    return _NUMBERED.sub(" ", text), tuple(phrases)


def _is_title(phrase):
    """Whether this names a paper, whose words are its own."""
    words = [word for word in phrase.split() if len(word) > 4]
    return len(words) > 2 and all(word[0].isupper() for word in words)


def _pieces(tokens, phrases):
    """Each piece of text; what stands between marks of emphasis is noted."""
    inside = []
    for token in tokens:
        if token.type in ("em_open", "strong_open"):
            inside.append("")
        elif token.type in ("em_close", "strong_close"):
            phrases.append(inside.pop())
        elif token.type in ("text", "code_inline", "softbreak"):
            piece = token.content or " "
            inside = [words + piece for words in inside]
            yield piece


def find(terms: list[Term], texts: list[Cell]) -> list[Finding]:
    """What the lessons, in their order, do with each term."""
    homes = {word.lower(): term for term in terms for word in term.spellings}
    pattern = _pattern(tuple(homes))
    used, explained = {}, {}
    for place, cell in enumerate(texts):
        for match in pattern.finditer(cell.text):
            used.setdefault(homes[match["word"].lower()], place)
        for match in filter(None, map(pattern.fullmatch, map(_bare, cell.phrases))):
            explained.setdefault(homes[match["word"].lower()], place)
    return [
        _finding(term, texts, used.get(term), explained.get(term)) for term in terms
    ]


@cache
def _pattern(words):
    """Any of the words, also in the plural: the longest first, "interpreter lock"."""
    spellings = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.compile(rf"(?<![\w-])(?P<word>{spellings})(?:e?s)?(?![\w-])", re.I)


def _bare(phrase):
    return re.sub(r"^(?:an?|the)\s|[.:,;]+$", "", phrase.strip(), flags=re.I)


def _finding(term, texts, used, explained):
    early = used is not None and (explained is None or used < explained)
    cells = (None if place is None else texts[place] for place in (used, explained))
    return Finding(term, *cells, early)


def lessons() -> list[Cell]:
    """The text cells of all lessons, one lesson after the other."""
    found = []
    for path in sorted(LESSONS.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        found += cells(notebook, path.stem.partition("_")[0])
    return found


def before(finding: Finding) -> str:
    """Where a term is used before its explanation, or ''."""
    if finding.early and finding.explained:
        return f"{finding.term.name}: {finding.used}, explained in {finding.explained}"
    return ""


def unexplained(finding: Finding) -> str:
    """Where a term is used that stands nowhere in italics, or ''."""
    lacks = finding.early and not finding.explained
    return f"{finding.term.name}: {finding.used}" if lacks else ""


def misplaced(finding: Finding) -> str:
    """Where a term is explained in another lesson than the glossary says, or ''."""
    term, cell = finding.term, finding.explained
    if cell and cell.lesson != term.lesson:
        return f"{term.name}: {cell}, docs/glossary.md says {term.lesson}"
    return ""


def unused(finding: Finding) -> str:
    """The name of a term that no lesson uses, or ''."""
    return "" if finding.used or not finding.term.spellings else finding.term.name


TASKS = {
    "Used before the explanation": before,
    "Used, and nowhere in italics": unexplained,
    "Explained in another lesson than the glossary says": misplaced,
    "Used in no lesson": unused,
}


def report(findings: list[Finding]) -> list[str]:
    """Lines: what is to do first, then all terms."""
    lines = []
    for title, tell in TASKS.items():
        todo = list(filter(None, map(tell, findings)))
        lines += [f"{title}: {len(todo)}", *(f"  {told}" for told in todo), ""]
    width = max(len(finding.term.name) for finding in findings)
    lines.append(f"{'term':{width}}  {'first use':24}  explained")
    for term, used, explained, _ in findings:
        place = str(used or NOWHERE)
        lines.append(f"{term.name:{width}}  {place:24}  {explained or ''}".rstrip())
    return lines


if __name__ == "__main__":
    terms = glossary(GLOSSARY.read_text(encoding="utf-8"))
    print("\n".join(report(find(terms, lessons()))))
