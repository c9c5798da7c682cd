"""`python -m docs.book`, which `make book` calls: make the book and check its links."""

import argparse
import sys
import time
from pathlib import Path

from docs.book import builder, checks, sources
from docs.book.contents import ROOT
from docs.book.errors import BookError

OUTPUT = ROOT / "_book"


def main(arguments: list[str] | None = None) -> int:
    """Write the sources, have them built, check the pages; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m docs.book", description=__doc__)
    parser.add_argument("--repository", required=True, help="address of the course")
    parser.add_argument("--jupyter-book", type=Path, required=True, help="its program")
    options = parser.parse_args(arguments)
    try:
        _make(options.repository.rstrip("/"), options.jupyter_book)
    except BookError as error:
        print(f"No book: {error}", file=sys.stderr)
        return 1
    return 0


def _make(repository, tool):
    began = time.monotonic()
    if not tool.exists():
        raise BookError(f"there is no {tool}. 'make book' installs Jupyter Book.")
    print("Writing the sources of the book …", flush=True)
    count = sources.write(OUTPUT / "source", repository)
    print(f"Building {count} sources …", flush=True)
    pages = builder.build(tool, OUTPUT / "source", OUTPUT)
    print("Following all links …", flush=True)
    if found := checks.faults(pages):
        raise BookError("\n".join(found))
    seconds = time.monotonic() - began
    print(f"{pages.relative_to(ROOT)}/index.html, after {seconds:.0f} s.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
