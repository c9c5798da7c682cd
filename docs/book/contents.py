"""What is in the book, in which part and order."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README, CHANGES, NAMES = "README.md", "CHANGELOG.md", "names.md"
# pages of docs/ by part; a new page that stands nowhere here comes last of "Handbook"
HANDBOOK = (
    *("setup", "lessons", "exercises", "launching", "faults", "collectives"),
    *("clusters", "studies", "virtual-gpus", "measurements", "glossary"),
)
TEACHING = ("instructors", "architecture", "torch_private")
PICTURES = ("notebooks/images/*", "docs/*.svg", "docs/*.png")


def parts() -> dict[str, list[str]]:
    """The sources of each part, by its title; paths from the root of the project."""
    pages = [path.stem for path in sorted((ROOT / "docs").glob("*.md"))]
    more = [page for page in pages if page not in (*HANDBOOK, *TEACHING)]
    return {
        "Lessons": _found("notebooks/*.ipynb"),
        "Exercises": _found("exercises/*.ipynb"),
        "Handbook": [f"docs/{page}.md" for page in (*HANDBOOK, *more)],
        "Reference": [NAMES, CHANGES],
        "Teach and change the course": [f"docs/{page}.md" for page in TEACHING],
    }


def pictures() -> list[str]:
    """The pictures that pages show."""
    return [path for pattern in PICTURES for path in _found(pattern)]


def places() -> dict[str, str]:
    """Where in the book each source is; what is not here is not in the book."""
    sources = [path for part in parts().values() for path in part]
    return {path: path for path in [*sources, *pictures()]} | {README: "index.md"}


def toc(titles: dict[str, str]) -> dict:
    """The table of contents as Jupyter Book reads it; `titles` by source."""
    chapters = [
        {"caption": caption, "chapters": [_chapter(path, titles) for path in part]}
        for caption, part in parts().items()
    ]
    return {"format": "jb-book", "root": "index", "parts": chapters}


def _chapter(path, titles):
    """A chapter; lessons have their number before the title."""
    chapter = {"file": path.rpartition(".")[0]}
    if path in titles:
        chapter["title"] = titles[path]
    return chapter


def _found(pattern):
    return [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob(pattern))]
