"""The built book in Chromium, without a network: `make book` ends with it.

`make test` leaves it out, as Jupyter Book is not installed there.
"""

import functools
import http.server
import json
import threading

import pytest

from docs.book import checks
from docs.book.__main__ import OUTPUT
from docs.book.contents import ROOT
from tests import browser as driven
from tests import lacks

HTML = OUTPUT / "_build" / "html"
PAGES = [path.relative_to(HTML).as_posix() for path in checks.pages_of(HTML)]
LESSONS = [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1300, "height": 1000}
# texts and pictures of the whole page, not of outputs alone
_LOOKS = driven.LOOKS.replace(".jp-OutputArea-output", ".bd-article")
_OPEN = """() => {
    document.querySelectorAll("details").forEach(fold => { fold.open = true })
    // what shows beside a heading under a pointer alone
    document.querySelectorAll(".headerlink").forEach(sign => sign.remove())
}"""
_WIDE = """() => [...document.querySelectorAll(".bd-article *")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1
        && !one.closest("pre, .text_html, .pst-scrollable-table-container"))
    .map(one => one.outerHTML.slice(0, 90))"""
_THEME = "name => { document.documentElement.dataset.theme = name }"

pytestmark = lacks.needs("Chromium")


@pytest.fixture(scope="module")
def address():
    """A plain server of static files."""
    handler = functools.partial(Quiet, directory=HTML)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """It does not tell what it serves."""

    def log_message(self, *_):
        pass


@pytest.fixture
def opened(browser):
    """`opened(address, viewport)` is a page; it must ask nothing of a network."""
    foreign, contexts = [], []

    def blocked(route):
        if route.request.url.startswith(("file:", "data:", "http://127.0.0.1:")):
            return route.continue_()
        foreign.append(route.request.url)
        return route.abort()

    def open_page(address, viewport=DESK):
        contexts.append(browser.new_context(viewport=viewport))
        contexts[-1].route("**/*", blocked)
        page = contexts[-1].new_page()
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert foreign == []


def local(page):
    return f"file://{HTML / page}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone_and_is_readable_in_both_themes(opened, page):
    view = opened(local(page), PHONE)
    view.evaluate(_OPEN)
    wide = view.evaluate(_WIDE)
    assert view.evaluate("document.documentElement.scrollWidth") <= 390, wide
    assert not view.locator("#pst-primary-sidebar").is_visible()
    for theme in ("light", "dark"):
        view.evaluate(_THEME, theme)
        # a figure that is wider than a phone scrolls in its own box
        faults = [f for f in view.evaluate(_LOOKS) if not f.startswith("cut:")]
        assert faults == [], theme


@pytest.mark.parametrize("start", ["file", "server"])
def test_search_works_without_a_network(opened, address, start):
    view = opened(local("index.html") if start == "file" else f"{address}/index.html")
    view.locator(".search-button-field:visible").first.click()
    view.keyboard.type("deadlock")
    view.keyboard.press("Enter")
    hits = view.locator("#search-results li a")
    hits.first.wait_for()
    view.wait_for_timeout(500)
    assert {"faults.html", "04_distributed_data_parallel.html"} <= {
        hit.get_attribute("href").partition("?")[0].partition("#")[0].rpartition("/")[2]
        for hit in hits.all()
    }
    hits.first.click()
    assert "deadlock" in view.locator("article").inner_text().lower()


@pytest.mark.parametrize("lesson", LESSONS)
def test_nothing_answers_a_question_before_it_is_opened(opened, lesson):
    view = opened(local(f"notebooks/{lesson}.html"))
    assert 6 <= view.locator(".guess").count() <= 8
    cards = view.locator("details.answer [style*='border-left:4px solid']")
    assert cards.count() == view.locator(".guess").count()
    assert not any(card.is_visible() for card in cards.all())
    view.evaluate(_OPEN)
    assert all(card.is_visible() for card in cards.all())
    assert view.get_by_text("Run this cell").count() == 0


@pytest.mark.parametrize("lesson", LESSONS)
def test_outputs_of_html_are_in_their_page_as_they_are_stored(lesson):
    text = (HTML / f"notebooks/{lesson}.html").read_text(encoding="utf-8")
    stored = [page for page in outputs(lesson) if "Run this cell" not in page]
    assert stored and all(page.strip() in text for page in stored)


def outputs(lesson):
    """The HTML of each output of a lesson."""
    notebook = json.loads((ROOT / f"notebooks/{lesson}.ipynb").read_text("utf-8"))
    cells = (cell.get("outputs", []) for cell in notebook["cells"])
    found = (
        output.get("data", {}).get("text/html") for cell in cells for output in cell
    )
    return ["".join(page) for page in found if page]


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_scenes_of_a_lesson_live_and_follow_the_theme(opened, lesson):
    stored = [page for page in outputs(lesson) if "attachShadow" in page]
    view = opened(local(f"notebooks/{lesson}.html"))
    view.evaluate(_OPEN)
    living = view.locator(".scene")
    assert living.count() == len(stored)
    for scene in living.all():
        last = scene.locator(".title").inner_text()
        scene.locator("svg").press("Home")
        assert scene.locator(".title").inner_text() != last
        scene.locator("svg").press("End")
        assert scene.locator(".title").inner_text() == last
        colors = set()
        for theme in ("light", "dark"):
            view.evaluate(_THEME, theme)
            colors.add(scene.evaluate("scene => getComputedStyle(scene).color"))
        assert len(colors) == 2
