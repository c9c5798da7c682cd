"""`make pages`: write what pages have from elsewhere.

That is the README's table of lessons and its moving picture, numbers of benchmarks, the
picture of the layers, and what virtual GPUs can. No test compares them. Here is also
what tests ask of the pages: links, headings, tables, blocks of code.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt  # comes with rich, which the grader asks for

from benchmarks import quoted
from course_lib.exercises.catalog import exercises
from course_lib.lessons.core_path import STAR, core_lessons, exercises_of

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted(
    path
    for folder in ("notebooks", "exercises", "solutions")
    for path in (ROOT / folder).glob("*.ipynb")
)
TOP = "| lesson | minutes | exercises | needs |\n|---|--:|--:|---|"
# of a lesson whose metadata says nothing
MINUTES, NEEDS = 60, "no GPU"


class Link(NamedTuple):
    """A link to a file of the project: from where, to what, to which heading."""

    page: Path
    target: Path
    anchor: str

    def __str__(self):
        place = self.page.relative_to(ROOT)
        return f"{place} to {self.target.name}{'#' * bool(self.anchor)}{self.anchor}"


def lesson(path: Path) -> str:
    """The row of a lesson: its title as a link, minutes, what it needs.

    The minutes of its exercises stand beside its own; a star marks the core path.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    course = notebook["metadata"].get("course", {})
    title = "".join(notebook["cells"][0]["source"]).splitlines()[0].removeprefix("# ")
    number, place = path.stem.partition("_")[0], path.relative_to(ROOT).as_posix()
    minutes, needs = course.get("minutes", MINUTES), course.get("needs", NEEDS)
    own = sum(task.minutes for task in exercises_of(number, [*exercises().values()]))
    star = f" {STAR}" if number in core_lessons() else ""
    return f"| {number}{star} [{title}]({place}) | {minutes} | {own or ''} | {needs} |"


def lessons() -> str:
    """The README's table of lessons as it should be."""
    rows = map(lesson, sorted((ROOT / "notebooks").glob("*.ipynb")))
    return "\n".join([TOP, *rows])


def table(page: str, top: str) -> str:
    """The table of a page that begins with these lines, or ''."""
    found = re.search(rf"^{re.escape(top)}\n(?:\|.*\n)*", page, re.MULTILINE)
    return found[0].rstrip("\n") if found else ""


def texts(page: Path) -> list[str]:
    """The Markdown of a page, or that of each text cell of a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return [text]
    cells = json.loads(text)["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]


def links(page: Path) -> list[Link]:
    """The links and pictures of a page that lead to files of the project."""
    found = [target for text in texts(page) for target in _targets(text)]
    plain = [t for t in found if not re.match(r"[a-z]+:", t)]
    return [_link(page, *target.partition("#")[::2]) for target in plain]


def _targets(text):
    for block in MarkdownIt().enable("table").parse(text):
        yield from re.findall(r'(?:href|src)="([^"]+)"', block.content * _html(block))
        for token in block.children or []:
            target = token.attrGet("href") or token.attrGet("src")
            if target:
                yield str(target)


def _html(block):
    return block.type == "html_block"


def _link(page, place, anchor):
    return Link(page, (page.parent / place).resolve() if place else page, anchor)


def anchors(page: Path) -> set[str]:
    """What links can follow a `#`: the headings of a page as GitHub spells them."""
    text = page.read_text(encoding="utf-8")
    blocks = MarkdownIt().parse(text)
    titles = [
        "".join(token.content for token in inline.children)
        for block, inline in zip(blocks, blocks[1:])
        if block.type == "heading_open"
    ]
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


def code(page: Path, language: str) -> list[str]:
    """The blocks of code of a page in a language."""
    blocks = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [b.content for b in blocks if b.type == "fence" and b.info == language]


def main() -> None:
    """Write all of them."""
    from tests import capabilities, film, layers  # the first needs torch

    text = README.read_text(encoding="utf-8")
    README.write_text(text.replace(table(text, TOP), lessons()), encoding="utf-8")
    quoted.main()
    layers.PICTURE.write_text(layers.picture(), encoding="utf-8")
    film.PICTURE.write_text(film.film(film.stored()), encoding="utf-8")
    capabilities.PAGE.write_text(capabilities.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
