"""Each lesson as a learner meets it, run once: in JupyterLab, with guesses clicked.

Here every cell runs; the lessons are not run a second time by nbval. The most tempting
wrong option of each guess is chosen, so that its sentence must come.
"""

import json
import re
import time
from pathlib import Path

import nbformat
import pytest

import conftest  # of the whole course: nbval's items are looked at there
from benchmarks import timed
from benchmarks.lesson_times import MOST, least_guesses
from course_lib.lessons import guess
from course_lib.workspace import command
from tests import browser as driven
from tests import film, lacks
from tests.test_lessons import ASKED, LESSONS

QUESTION = re.compile(r"\?|\.")  # the question names the group of its buttons
_ACTIVE = """() => {
    const { content } = window.jupyterapp.shell.currentWidget
    return [content.activeCell.model.id, content.widgets.length]
}"""
WIDGET = "application/vnd.jupyter.widget-view+json"

pytestmark = [pytest.mark.browser, lacks.needs("Chromium")]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A learner's copy of the course."""
    path = tmp_path_factory.mktemp("learner") / "work"
    assert command.main([str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def lab(work):
    with driven.lab(work) as address:
        yield address


class Run:
    """One lesson, run in a page: what is stored, what the run gave."""

    def __init__(self, page, path, work):
        self.page, self.name = page, path.name
        notebook = nbformat.read(path, as_version=4)
        self.stored, self.asked = notebook.cells, []
        self.least = least_guesses(notebook)
        began = time.monotonic()
        driven.run_all(page, self._choose)
        seconds = time.monotonic() - began
        self.cells = self._saved(path, work)
        self._run_again_what_was_disturbed(path, work)
        alone = notebook.metadata["course"]["seconds"]
        self.took = (
            f"{path.name} in JupyterLab: {seconds:.0f} s beside other tests"
            f" (alone {alone} s at most)"
        )

    def _run_again_what_was_disturbed(self, path, work):
        """As the grey line asks a learner to, where another answer comes of it."""
        for _ in range(3):
            again = [
                number
                for number, (stored, cell) in enumerate(zip(self.stored, self.cells))
                if cell.cell_type == "code"
                and conftest.other_answer(stored.outputs, cell.outputs)
                and "disturbed: " in json.dumps(cell.outputs)
            ]
            if not again:
                return
            for number in again:
                driven.run_cell(self.page, number)
            self.cells = self._saved(path, work)

    def _saved(self, path, work):
        driven.save(self.page)
        return nbformat.read(work / "notebooks" / path.name, as_version=4).cells

    def _choose(self, number):
        """Click the most tempting option of the guess in a cell, if there is one."""
        for name in ASKED.findall(self.stored[number].source):
            tempting = next(iter(guess.sentences(name)))
            cell = self.page.locator(".jp-Notebook .jp-Cell").nth(number)
            group = cell.get_by_role("group", name=QUESTION)
            options = group.get_by_role("button").all_inner_texts()
            # all but the right one
            assert len(options) == 1 + len({*options} & {*guess.sentences(name)}), name
            group.get_by_role("button", name=tempting, exact=True).click()
            group.get_by_role("button", name=tempting, pressed=True).wait_for()
            cell.get_by_role("status").get_by_text(f"You guess {tempting}.").wait_for()
            self.asked.append((name, tempting))

    def code(self):
        """(stored cell, cell as it ran) of each cell with code."""
        pairs = zip(self.stored, self.cells, strict=True)
        return [pair for pair in pairs if pair[0].cell_type == "code"]


@pytest.fixture(scope="module", params=LESSONS, ids=lambda path: path.stem)
def lesson(request, browser, lab, work):
    path = Path("notebooks", request.param.name)
    with driven.visited(browser, lab, path) as page:
        yield Run(page, request.param, work)


def text(cell):
    """What a cell shows as text, without what lives in a kernel alone."""
    outputs = (
        output for output in cell.outputs if WIDGET not in output.get("data", {})
    )
    parts = (o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    # a clock that was taken away leaves an output without data
    return "\n".join(filter(None, ("".join(part) for part in parts)))


def test_every_cell_runs(lesson, record_property):
    for stored, cell in lesson.code():
        assert cell.execution_count, f"{cell.id} did not run"
        errors = [o.evalue for o in cell.outputs if o.output_type == "error"]
        meant = "raises-exception" in stored.metadata.get("tags", [])
        assert bool(errors) == meant, f"{cell.id}: {errors}"
    record_property("cells", ("notebooks", len(lesson.code())))
    record_property("summary", lesson.took)


def test_what_is_compared_comes_again(lesson):
    for stored, cell in lesson.code():
        if "nbval-check-output" in stored.metadata.get("tags", []):
            assert text(cell) == text(stored), cell.id


def test_each_guess_is_answered_by_the_run(lesson):
    answers = [conftest.answer_of(stored.outputs) for stored, _ in lesson.code()]
    assert len(lesson.asked) == sum(map(bool, answers)), "none goes unnoticed"
    for stored, cell in lesson.code():
        assert not conftest.other_answer(stored.outputs, cell.outputs), cell.id
    shown = "\n".join(text(cell) for _, cell in lesson.code())
    assert lesson.least <= len(lesson.asked) <= MOST["guesses"]
    clocks = timed.asked(lesson.stored)
    for name, option in lesson.asked:
        sentence = guess.sentences(name)[option]
        # a measured time may be another one: then the outcome says so instead
        other = name in clocks and f"You guessed {option}." in shown
        assert other or f"You guessed {option}: {sentence}" in shown, name
    assert "not among the options" not in shown


def test_every_figure_says_what_it_shows_and_is_not_empty(lesson):
    for _, cell in lesson.code():
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                assert not conftest.fault_of(data), cell.id


@pytest.mark.parametrize("theme", ["Light", "Dark"])
@pytest.mark.parametrize("width", [1100, 550], ids=["1100 px", "200 %"])
def test_outputs_can_be_read_and_nothing_is_cut(lesson, theme, width):
    lesson.page.set_viewport_size({"width": width, "height": 1000})
    driven.theme(lesson.page, theme)
    assert lesson.page.evaluate(driven.LOOKS) == []


def test_sliders_have_names_and_bring_a_new_figure(lesson):
    page = lesson.page
    page.set_viewport_size({"width": 1100, "height": 1000})
    for panel in page.locator(".course-explore").all():
        before = shown(panel)
        names = [handle.get_attribute("aria-label") for handle in sliders(panel)]
        assert all(names) and len({*names}) == len(names)
        first = sliders(panel)[0]
        first.focus()
        now, most = map(first.get_attribute, ("aria-valuenow", "aria-valuemax"))
        page.keyboard.press("Home" if now == most else "End")
        for _ in range(1200):
            if shown(panel) != before:
                break
            page.wait_for_timeout(100)
        assert shown(panel) != before
        assert panel.get_by_text("No new figure").count() == 0
        # its value in words is what stands beside it, not the number of an item
        readout = panel.locator(".widget-readout").first.inner_text()
        assert first.get_attribute("aria-valuetext") == readout


def test_scenes_live_and_their_keys_stay_in_them(lesson):
    page = lesson.page
    outputs = (output for cell in lesson.cells for output in cell.get("outputs", []))
    pages = ("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    living = page.locator(".scene")
    count = sum(film.CALL in text for text in pages)
    assert living.count() == count
    for scene in living.all():
        scene.locator("svg").focus()
        titles, active = [], page.evaluate(_ACTIVE)
        for key in ("End", "Home", "ArrowRight", "d", "d"):  # twice d deletes a cell
            page.keyboard.press(key)
            titles.append(scene.locator(".title").inner_text())
        assert len({*titles}) > 1 and titles[-1] == titles[2]
        assert page.evaluate(_ACTIVE) == active
        page.keyboard.press("End")


def shown(panel):
    """What tells a figure from the one before: its source, or of a scene the title."""
    figure = panel.locator("img, .scene .title").first
    return figure.get_attribute("src") or figure.inner_text()


def sliders(panel):
    return panel.get_by_role("slider").all()


def test_the_map_leads_to_the_neighbours(lesson):
    links = {
        cell.id: re.findall(r"\]\(([^)#]+)", cell.source)
        for cell in lesson.stored
        if cell.id in ("map", "next")
    }
    for target in sum(links.values(), []):
        shown = lesson.page.locator(
            f".jp-MarkdownOutput a[href*='{Path(target).name}']"
        )
        assert shown.count(), target


def test_no_output_of_a_lesson_needs_the_network(lesson):
    pages = json.dumps([cell.get("outputs", []) for cell in lesson.cells])
    assert not re.search(r'(src|href)=\\"https?://', pages)
