"""What is wrong with the pages that were built: lost links, things from a network."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# what a browser fetches without being asked
_LOADED = {
    *(("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")),
    *(("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data")),
    *(("input", "src"), ("image", "href"), ("use", "href")),
}
_KINDS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect"}
_CSS = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class Link(NamedTuple):
    """Where a page leads to, and whether a browser fetches it by itself."""

    target: str
    loaded: bool


class Page(HTMLParser):
    """The links of a page and the anchors that it has."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.anchors = [], set()
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note what a tag leads to, and its name."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self._style = tag == "style"
        fetched = tag == "link" and _KINDS & set(values.get("rel", "").split())
        for name in ("href", "src", "data"):
            if name in values and not (name == "data" and tag != "object"):
                loaded = bool(fetched) or (tag, name) in _LOADED
                self.links.append(Link(values[name], loaded))
        self._note_css(values.get("style", ""))

    def handle_data(self, data):
        """Note what a style sheet inside of the page loads."""
        if self._style:
            self._note_css(data)

    def handle_endtag(self, tag):
        """Leave a style sheet."""
        self._style = False

    def _note_css(self, text):
        self.links += [Link(target, True) for target in _CSS.findall(text)]


def faults(folder: Path) -> list[str]:
    """A sentence for each lost link of a built book, and for each foreign thing."""
    folder = folder.resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in pages_of(folder)}
    found = [
        f"{path.relative_to(folder).as_posix()} {fault}"
        for path, page in pages.items()
        for link in page.links
        if (fault := _fault(path, link, pages))
    ]
    for path in sorted(folder.rglob("*.css")):
        for target in _CSS.findall(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(folder)} loads {target} from a network")
    return list(dict.fromkeys(found))


def pages_of(folder: Path) -> list[Path]:
    """The pages of a book; a theme keeps templates of its own in `_static`."""
    return [
        path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts
    ]


def _fault(path, link, pages):
    """What is wrong with a link of a page, or None."""
    parts = urlsplit(link.target)
    if parts.netloc or parts.scheme in ("http", "https"):
        return f"loads {link.target} from a network" if link.loaded else None
    if parts.scheme:
        return None  # data, mailto
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return f"links to {link.target}, and there is no such page or file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"links to {link.target}, and there is no such heading or anchor"
    return None
