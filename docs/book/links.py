"""Links of a page: within the book as they are, else to the project's repository."""

import posixpath
import re
from pathlib import Path
from typing import NamedTuple

from docs.book.errors import BookError

# a link or picture in Markdown, or in the HTML inside of it; not in code
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r'(?P<before>\]\(|(?:href|src)=")(?P<target>[^)"\s]+)')
_ELSEWHERE = re.compile(r"[a-z]+:|#")


class Links(NamedTuple):
    """Where links lead: `places` in the book by source, and the repository's address.

    `root` is the folder of the project.
    """

    places: dict[str, str]
    repository: str
    root: Path

    def rewritten(self, text: str, page: str) -> str:
        """The Markdown of a page with links for the book.

        Errors: `BookError` for a link to a file that is not there.
        """
        parts = _CODE.split(text)
        # code stands at the odd places
        parts[::2] = [
            _TARGET.sub(lambda m: m["before"] + self._target(m["target"], page), part)
            for part in parts[::2]
        ]
        return "".join(parts)

    def _target(self, target, page):
        if _ELSEWHERE.match(target):
            return target
        path, mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if path in self.places:
            here = posixpath.dirname(self.places.get(page, page)) or "."
            return posixpath.relpath(self.places[path], here) + mark + anchor
        if path.startswith("..") or not (self.root / path).exists():
            raise BookError(f"{page} links to {target}, and there is no such file")
        return f"{self.repository}/blob/HEAD/{path}{mark}{anchor}"
