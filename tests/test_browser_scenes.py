"""The scenes that lessons have stored, where no kernel is: exported, and not trusted.

That they live after a run, in both themes, is shown by test_browser_lessons.py.
"""

import re
import xml.etree.ElementTree as tree
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests import browser as driven
from tests import film, lacks

pytestmark = [pytest.mark.browser, lacks.needs("Chromium")]
NAMESPACE = "{http://www.w3.org/2000/svg}"
# what is drawn, as (class, x, y, text), without the time axis
_DRAWN = """svg => [...svg.querySelectorAll("g > g")].filter(
    group => !/event|gone|tick/.test(group.getAttribute("class") ?? "gone")
).map(group => {
    const [x, y] = group.style.transform.match(/-?[\\d.]+/g).map(Number)
    return [group.getAttribute("class"), x, y, group.querySelector("text").textContent]
})"""


_WHEEL = """svg => {
    const { x, y, width } = svg.getBoundingClientRect()
    const place = { clientX: x + width / 2, clientY: y + 20 }
    const turned = { ...place, deltaY: -500, ctrlKey: true }
    for (let n = 0; n < 4; n++) svg.dispatchEvent(new WheelEvent("wheel", turned))
}"""


# moves all sliders to all positions: texts that a screen reader gets otherwise, and
# sliders that never change what is drawn (of one GPU, some change nothing)
_SLIDERS = (
    f"scene => {{ {driven.SLIDERS}"
    + """
    const lines = [...scene.querySelectorAll("label.bar")]
    const sliders = lines.map(line => line.querySelector("input"))
    const drawn = () => scene.querySelector("svg").innerHTML
    const before = sliders.map(slider => slider.value)
    const idle = new Set(sliders.keys()), unsaid = []
    for (const place of positions(sliders)) {
        place.forEach((value, i) => put(sliders[i], value))
        for (const i of [...idle]) {
            const last = drawn()
            for (let n = 0; n <= +sliders[i].max; n++) {
                put(sliders[i], n)
                const said = lines[i].querySelector(".count").textContent
                if (sliders[i].ariaValueText !== said || !said) unsaid.push(said)
                if (drawn() !== last) idle.delete(i)
            }
            put(sliders[i], place[i])
        }
        if (!idle.size) break
    }
    before.forEach((value, i) => put(sliders[i], value))
    return { unsaid, idle: [...idle].map(i => sliders[i].ariaLabel) }
}"""
)


SCENES = film.all_pages()


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """A notebook that holds all of them, as somebody sends it."""
    cells = [
        new_code_cell(
            f"# {name}", outputs=[new_output("display_data", {"text/html": page})]
        )
        for name, page in SCENES.items()
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"scene-{number}"
    path = tmp_path_factory.mktemp("scenes") / "scenes.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), path)
    return path


@pytest.fixture(scope="module")
def exported(notebook, browser):
    """The notebook as a page of HTML, opened without a network."""
    from nbconvert import HTMLExporter

    text, _ = HTMLExporter().from_filename(str(notebook))
    page = notebook.with_suffix(".html")
    page.write_text(text, encoding="utf-8")
    with browser.new_context(offline=True) as context:
        shown = driven.new_page(context)
        shown.goto(page.as_uri(), wait_until="domcontentloaded")
        yield shown


def test_lessons_have_scenes():
    assert len(SCENES) >= 10


@pytest.mark.parametrize("name", SCENES)
class TestExported:
    @pytest.fixture
    def scene(self, name, exported):
        return exported.locator(".scene").nth([*SCENES].index(name))

    def test_it_is_paused_at_its_last_moment(self, scene):
        assert scene.get_by_role("button").first.inner_text() == "▶ Play"
        number, count = scene.locator(".count").first.inner_text().split(" of ")
        assert number == count

    def test_it_draws_what_the_still_picture_shows(self, name, scene):
        drawn = {tuple(row) for row in scene.locator("svg").evaluate(_DRAWN)}
        rounded = {(role, f"{x:.3g}", f"{y:.3g}", text) for role, x, y, text in drawn}
        assert rounded == of_picture(name)

    def test_keys_step_and_the_title_follows(self, scene, exported):
        picture, title = scene.locator("svg"), scene.locator(".title")
        last = title.inner_text()
        picture.focus()
        exported.keyboard.press("Home")
        first = title.inner_text()
        exported.keyboard.press("ArrowRight")
        assert scene.locator(".count").first.inner_text().startswith("2 of ")
        exported.keyboard.press("ArrowLeft")
        assert title.inner_text() == first
        exported.keyboard.press("End")
        assert title.inner_text() == last != first

    def test_a_pointer_steps_plays_and_reads(self, scene):
        scene.get_by_role("slider", name="step").fill("0")
        first = scene.locator(".title").inner_text()
        scene.get_by_role("button", name="one step on").click()
        assert scene.locator(".count").first.inner_text().startswith("2 of ")
        scene.get_by_role("button", name="one step back").click()
        assert scene.locator(".title").inner_text() == first
        scene.get_by_role("button").first.click()
        assert scene.get_by_role("button").first.inner_text() == "❚❚ Pause"
        scene.get_by_role("button").first.click()
        assert scene.get_by_role("button").first.inner_text() == "▶ Play"

    def test_a_button_that_has_no_further_step_keeps_the_focus(self, scene):
        scene.get_by_role("slider", name="step").fill("1")
        back = scene.get_by_role("button", name="one step back")
        back.press("Enter")
        assert back.get_attribute("aria-disabled") == "true"
        assert back.evaluate("button => button === button.getRootNode().activeElement")
        scene.locator("svg").press("End")

    def test_what_is_pointed_at_is_read(self, scene, exported):
        scene.locator("svg").focus()
        exported.keyboard.press("End")
        exported.keyboard.press("ArrowDown")
        assert scene.locator(".tip").inner_text()

    def test_each_slider_says_its_value_and_changes_the_scene(self, scene):
        found = scene.evaluate(_SLIDERS)
        assert found == {"unsaid": [], "idle": []}


def test_what_a_key_reads_stays_when_a_mouse_leaves_it(exported):
    scene = exported.locator(".scene").nth([*SCENES].index("00 shard"))
    away, tip = scene.locator(".source"), scene.locator(".tip")
    away.hover()
    scene.locator("svg").press("ArrowDown")
    read = tip.inner_text()
    card = scene.locator("g[data-read]")
    card.hover()
    for key in ("ArrowDown", "ArrowUp"):
        scene.locator("svg").press(key)
    away.hover()
    assert tip.inner_text() == read != ""
    scene.locator(".label").first.hover()  # about which there is nothing to read
    assert tip.inner_text() == read
    card.hover()
    away.hover()
    assert tip.inner_text() == ""


# reads all that there is to read, key by key: what of it is out of view then
_UNSEEN = """scene => {
    const [frame, svg] = [".frame", "svg"].map(name => scene.querySelector(name))
    const press = key => svg.dispatchEvent(new KeyboardEvent("keydown", { key }))
    const unseen = new Set()
    let last = null
    for (;;) {
        press("ArrowDown")
        const read = scene.querySelector("[data-read]")
        if (read === last) return [...unseen]
        last = read
        const [inner, outer] = [read, frame].map(one => one.getBoundingClientRect())
        const middle = (inner.left + inner.right) / 2
        if (middle < outer.left || middle > outer.right)
            unseen.add(scene.querySelector(".tip").textContent)
    }
}"""


@pytest.mark.parametrize("name", SCENES)
def test_where_a_page_is_too_narrow_a_scene_says_so_and_shows_what_is_read(
    name, exported
):
    scene = exported.locator(".scene").nth([*SCENES].index(name))
    wide, told = exported.viewport_size, scene.locator(".cut")
    assert told.is_hidden()
    try:
        exported.set_viewport_size({"width": 400, "height": 900})
        assert told.is_visible() and "scroll it sideways" in told.inner_text()
        assert scene.evaluate(_UNSEEN) == []
    finally:
        exported.set_viewport_size(wide)


TIMELINES = [name for name in SCENES if '"axis":{' in SCENES[name]]


@pytest.mark.parametrize("name", TIMELINES)
def test_a_timeline_is_zoomed_by_buttons_keys_wheel_and_drag(name, exported):
    scene = exported.locator(".scene").nth([*SCENES].index(name))
    whole = scene.get_by_role("button", name="show the whole time")
    ruler = scene.locator(".tick text")
    all_of_it = ruler.all_text_contents()
    assert whole.is_disabled()
    for zoom in (
        lambda: scene.get_by_role("button", name="zoom in").click(),
        lambda: scene.locator("svg").press("+"),
        lambda: scene.locator("svg").evaluate(_WHEEL),
    ):
        zoom()
        closer = ruler.all_text_contents()
        assert closer != all_of_it and whole.is_enabled()
        scene.locator("svg").scroll_into_view_if_needed()
        box, seen = scene.locator("svg").bounding_box(), [closer]
        # it shows what was pointed at, maybe the end: to one side there is more
        for start, stop in ((400, 150), (150, 400)):
            exported.mouse.move(box["x"] + start, box["y"] + 40)
            exported.mouse.down()
            exported.mouse.move(box["x"] + stop, box["y"] + 40, steps=3)
            exported.mouse.up()
            seen.append(ruler.all_text_contents())
        assert any(ticks != closer for ticks in seen)
        scene.locator("svg").press("0")
        assert ruler.all_text_contents() == all_of_it and whole.is_disabled()


def of_picture(name):
    """What the picture of a scene holds that is no event, as `_DRAWN` tells it."""
    page = SCENES[name]
    source = re.search('src="data:image/svg.xml,([^"]*)"', page)[1]
    root, drawn = tree.fromstring(unquote(source)), set()
    for group in root.iter(f"{NAMESPACE}g"):
        role, place = group.get("class"), group.get("transform")
        if place and not {"event", "head"} & {*role.split()}:
            x, y = (
                f"{float(n):.3g}" for n in re.findall(r"-?[\d.]+(?:e-?\d+)?", place)
            )
            text = group.find(f"{NAMESPACE}text")
            drawn.add((role, x, y, "" if text is None else text.text))
    return drawn


def test_nothing_moves_where_people_want_no_motion(browser, notebook, exported):
    page = driven.new_page(browser, reduced_motion="reduce")
    page.goto(notebook.with_suffix(".html").as_uri(), wait_until="domcontentloaded")
    moves = page.locator(".scene svg g g").first
    assert moves.evaluate("group => getComputedStyle(group).transitionDuration") == "0s"
    page.close()


@pytest.mark.parametrize("media", [{"media": "print"}, {"forced_colors": "active"}])
def test_a_dark_page_is_readable_on_paper_and_in_forced_colours(exported, media):
    dark = "--jp-ui-font-color1:#fff;--jp-ui-font-color2:#ccc;--jp-layout-color1:#111"
    exported.evaluate("style => { document.body.style = style }", dark)
    exported.emulate_media(**media)
    card = exported.locator(".scene .card rect, .scene .veil rect").first
    text = exported.locator(".scene .label text").first
    colors = [one.evaluate("e => getComputedStyle(e).fill") for one in (card, text)]
    assert colors == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    exported.emulate_media(media="screen", forced_colors="none")
    exported.evaluate("() => document.body.removeAttribute('style')")


def test_every_scene_is_below_60_kB():
    sizes = {name: len(page) for name, page in SCENES.items()}
    assert not {name: size for name, size in sizes.items() if size >= 60_000}


def test_in_a_notebook_that_is_not_trusted_the_pictures_stay(browser, notebook):
    with driven.lab(notebook.parent) as address:
        page = driven.new_page(browser)
        page.goto(f"{address}/tree/{notebook.name}?reset")
        page.locator(".jp-OutputArea img").first.wait_for()
        # JupyterLab that is stopped while it opens a notebook may hang
        driven.wait_for_kernel(page, notebook.name)
        driven.show_all(page)
        images = page.locator(".jp-OutputArea img")
        assert images.count() == len(SCENES) and page.locator(".scene").count() == 0
        for image in images.all():
            wide, alt = image.evaluate(
                "i => i.decode().then(() => [i.naturalWidth, i.alt])"
            )
            assert wide == 640 and alt
        page.close()
