"""JupyterLab as a learner sees it, driven in Chromium.

One learner's afternoon: a test may find what the test before it left, so they run in
this order.
"""

import re
import shutil
from pathlib import Path

import pytest

from course_lib.exercises.checking import exercises
from tests import browser as driven
from tests import lacks, ports
from tests.browser import CODE, ROOT, opened, run, wait_for_kernel
from tests.clones import NEEDED, set_up

FOLDERS = ("course_lib", "notebooks", "exercises", "docs")
NOT_TRACKED = shutil.ignore_patterns("__pycache__", ".*")
# in work/, where JupyterLab is opened
LESSON = Path("notebooks/00_start_here.ipynb")
LAST_LESSON = Path("notebooks/04_distributed_data_parallel.ipynb")
EXERCISE = Path("exercises/04_distributed_data_parallel.ipynb")

pytestmark = [pytest.mark.browser, lacks.needs("Chromium")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A clone of what a learner needs, set up with this Python."""
    clone = tmp_path_factory.mktemp("clone")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, clone / name, ignore=NOT_TRACKED)
    for path in NEEDED:
        shutil.copy(ROOT / path, clone / path)
    set_up(clone)
    return clone


@pytest.fixture(scope="module")
def lab(folder):
    """The address of the JupyterLab that `make lab` starts."""
    port = ports.free()
    command = ["make", "lab", f"ARGS={' '.join(driven.options(port))}"]
    with driven.serving(command, port, folder=folder) as address:
        yield address


@pytest.fixture(scope="module")
def page(lab, browser):
    return opened(browser, lab, LESSON)


@pytest.fixture(scope="module")
def exercise(lab, browser):
    """A page with the exercises, come to by the link at the end of their lesson."""
    page = opened(browser, lab, LAST_LESSON)
    page.get_by_role("link", name="exercises 4.1").click()
    page.get_by_role("heading", name="Exercises 4").first.wait_for()
    wait_for_kernel(page, EXERCISE)
    return page


def test_a_lesson_opens_without_outputs(page):
    assert page.locator(".jp-Notebook .jp-OutputArea-output").count() == 0


def test_the_first_cells_start_ranks_and_draw_their_timeline(page):
    cell = run(page, "import course_lib", "cl.launch(hello")
    cell.get_by_text("I am rank 1 of 2").wait_for()
    cell = run(page, "def unequal(", "scenes.timeline(results.trace)")
    title, picture = cell.locator(".scene .title"), cell.locator(".scene svg")
    picture.wait_for()
    assert re.search(r"2 ranks.*rank \d waits", title.inner_text(), re.S)
    assert picture.bounding_box()["width"] > 300


def test_a_guess_is_made_by_a_key_answered_by_the_run_and_remembered(page):
    asked = run(page, 'cl.guess("00-copies"')
    group = asked.get_by_role("group", name="What is count here afterwards?")
    group.get_by_role("button", name="4", exact=True).focus()
    page.keyboard.press("Space")
    asked.get_by_text("You guess 4. Now run the next cell.").wait_for()
    cell = run(page, "copies.was(")
    cell.get_by_text("You guessed 4: Each rank added 1").wait_for()
    assert group.get_by_role("button", name="4", exact=True).is_disabled()
    run(page, 'cl.guess("00-copies"')
    asked.get_by_text("You guess 4, as before.").wait_for()


def test_an_error_is_one_red_box_that_names_rank_and_line(page):
    cell = run(page, "cl.launch(mistake")
    box = cell.locator("[data-mime-type='application/vnd.jupyter.stderr']")
    box.wait_for()
    text = box.inner_text()
    assert "rank 1 of 2 raised RuntimeError" in text
    assert "x = x.reshape(4, 2)" in text
    assert "site-packages" not in text


_SLIDER = """def show(billions=1.5):
    title = f"{billions} billion parameters"
    cl.plot_bars({"a": billions}, ylabel="s", title=title)

import course_lib as cl
cl.explore(show, units={"billions": "of parameters"}, billions=(0.5, 10.0, 0.5))"""


def test_sliders_change_the_figure(page):
    cell = new_cell(page, _SLIDER)
    cell.locator("img[alt*='1.5 billion parameters']").wait_for()
    cell.locator(".noUi-handle").first.focus()
    page.keyboard.press("End")  # the largest model
    cell.locator("img[alt*='10.0 billion parameters']").wait_for()


def test_pressing_i_twice_stops_a_launch(page):
    cell = new_cell(
        page,
        "def endless(rank, world_size):\n    print('started')\n"
        "    import time; time.sleep(1000)\n\ncl.launch(endless, world_size=2)",
    )
    cell.locator("pre", has_text="started").first.wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    page.keyboard.press("i")
    cell.get_by_text("endless on 2 ranks: interrupted").wait_for()


def test_a_silent_cell_has_a_clock_until_it_ends(page):
    new_cell(page, "import course_lib; print('imp' + 'orted')")
    page.get_by_text("imported", exact=True).wait_for()
    cell = new_cell(page, "while True:\n    pass")
    cell.get_by_text(re.compile("this cell runs, [0-9]+ s")).wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    page.keyboard.press("i")
    cell.get_by_text("KeyboardInterrupt").first.wait_for()
    # the error is shown first
    cell.get_by_text("this cell runs").wait_for(state="detached")


def new_cell(page, code):
    """Write a cell at the end, and start it."""
    page.locator(".jp-Notebook .jp-Cell").last.click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")
    return page.locator(CODE, has_text=code.splitlines()[0]).first


def test_a_guess_whose_kernel_was_restarted_says_what_to_do(page, lab, browser):
    asked = run(page, 'cl.guess("00-copies"')
    asked.get_by_role("button", name="4", exact=True).wait_for()
    driven.save(page)
    restart(page, LESSON)
    asked.get_by_role("status").get_by_text("Run All Above Selected Cell").wait_for()
    assert asked.locator(".jupyter-widgets-disconnected").count() == 0  # with its icon
    assert asked.get_by_role("button", name="4", exact=True).is_disabled()
    assert looks(page) == []
    # opened once more, there is nothing left of the buttons
    again = opened(browser, lab, LESSON)
    driven.show_all(again)
    place = again.locator(CODE, has_text='cl.guess("00-copies"').first
    gone = place.locator(".jp-OutputArea-output.jupyter-widgets:not(:has(*))")
    gone.wait_for()
    content = gone.evaluate("output => getComputedStyle(output, '::after').content")
    assert "Run All Above Selected Cell" in content
    assert gone.evaluate("output => getComputedStyle(output).fontSize") == "0px"
    # what the text says is done
    place.click()
    again.evaluate(
        """async () => {
            const { commands } = window.jupyterapp
            await commands.execute("notebook:run-all-above")
        }"""
    )
    cell = run(again, 'cl.guess("00-copies"')
    cell.get_by_text("You guess 4, as before.").wait_for()
    again.close()


def restart(page, path):
    """Restart the kernel of the notebook in front."""
    page.keyboard.press("Escape")
    page.keyboard.press("0")
    page.keyboard.press("0")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    wait_for_kernel(page, path)


def test_the_links_of_the_map_lead_on_and_back(lab, browser):
    page = opened(browser, lab, LESSON)
    for link, title in (
        ("01 →", "A model too large for one GPU fits two"),
        ("← 00", "Two processes train one model: start here"),
        ("exercises", "Exercise 0: the first green tick"),
    ):
        page.get_by_role("link", name=link, exact=True).and_(
            page.locator(":visible")
        ).first.click()
        heading = page.locator("h1:visible", has_text=title)
        heading.first.wait_for()
    page.close()


def test_the_link_at_the_end_of_a_lesson_opens_its_exercises(exercise):
    assert exercise.get_by_role("heading", name="Exercises 4").first.is_visible()


def test_the_tabs_of_a_lesson_and_its_exercises_differ_in_their_first_letters(exercise):
    labels = []
    for path in (LAST_LESSON, EXERCISE):
        tab = exercise.locator(f".lm-TabBar-tab[title*='Path: {path}']")
        label = tab.locator(".lm-TabBar-tabLabel")
        label.wait_for()
        before = "label => getComputedStyle(label, '::before').content"
        before = label.evaluate(before).strip('"').replace("none", "")
        labels.append(before + label.inner_text())
    assert labels == [LAST_LESSON.name, f"Exercises {EXERCISE.name}"]


CHECK = 'cl.check("4.1", shard_indices)'
WRONG = """def shard_indices(num_samples, rank, world_size):
return list(range(rank, num_samples, world_size))"""
ANSWER = """def shard_indices(num_samples, rank, world_size):
length = -(-num_samples // world_size) * world_size
return [i % num_samples for i in range(rank, length, world_size)]"""


def test_a_check_of_the_stub_says_not_started(exercise):
    cell = run(exercise, "import course_lib", "def shard_indices", CHECK)
    cell.get_by_text("4.1 not started").wait_for()


def test_a_wrong_answer_is_told_apart_and_gets_a_hint_by_its_button(exercise):
    write(exercise, WRONG)
    cell = run(exercise, CHECK)
    cell.get_by_text(re.compile("4.1 not yet: rank . of . gets")).wait_for()
    for number in (1, 2, 3):
        cell.get_by_role("button", name=f"4.1: hint {number} of 3").click()
        cell.get_by_text(f"4.1, hint {number} of 3").wait_for()
    button = cell.get_by_role("button", name="4.1: no more hints")
    verdict, hints = cell.get_by_text("4.1 not yet"), cell.get_by_text("hint 1 of 3")
    order = [verdict, cell.locator("img"), button, hints.first]
    heights = [part.bounding_box()["y"] for part in order]
    assert heights == sorted(heights)
    assert cell.locator("code", has_text="world_size").first.is_visible()
    assert looks(exercise) == []


def test_a_right_answer_is_praised_and_drawn(exercise):
    write(exercise, ANSWER)
    cell = run(exercise, CHECK)
    praise, figure = (
        cell.get_by_text("4.1 right"),
        cell.locator("img[alt*='more than']"),
    )
    figure.wait_for()
    assert praise.bounding_box()["y"] < figure.bounding_box()["y"]
    assert looks(exercise) == []


def write(page, answer):
    """Type an answer in place of what stands in its cell, and run it."""
    cell = page.locator(CODE, has_text="def shard_indices").first
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(answer.replace("\n", "\n    "))
    page.keyboard.press("Shift+Enter")


def looks(page):
    """What is hard to read or cut, in both themes."""
    faults = []
    for theme in ("Dark", "Light"):
        driven.theme(page, theme)
        faults += page.evaluate(driven.LOOKS)
    return faults


def test_what_is_hard_to_read_or_cut_is_found(exercise):
    """The look of each output is judged by a script, which is itself tried here."""
    cell = exercise.locator(".jp-OutputArea-output:visible").first
    cell.evaluate(
        """output => { output.innerHTML = `
            <p style="color:#aaa;background:#fff">pale words</p>
            <p style="background:#000;color:#fff">clear words</p>
            <p style="opacity:.3">faded words</p>
            <button style="width:3em;white-space:nowrap">more than fits</button>
            <pre style="word-break:break-all">broken words</pre>
            <img alt="a wide figure" style="width:3000px;max-width:none">` }"""
    )
    faults = exercise.evaluate(driven.LOOKS)
    found = sorted(fault.partition(": ")[2] for fault in faults)
    assert found == [
        "a wide figure",
        "broken words",
        "faded words",
        "more than fits",
        "pale words",
    ]


def test_what_is_done_is_still_there_after_a_restart(exercise, folder):
    restart(exercise, EXERCISE)
    cell = run(exercise, "import course_lib as cl", "cl.summary()")
    count = sum(name.startswith("4.") for name in exercises())
    cell.get_by_text(f"1 of {count} exercises right").wait_for()
    # kept in the learner's copy
    assert list(folder.rglob(".progress.jsonl")) == [
        folder / "work/exercises/.progress.jsonl"
    ]


def test_jupyterlab_does_not_ask_about_news(page, lab):
    settings = f"{lab}/api/settings/@jupyterlab/apputils-extension:notification"
    schema = page.request.get(settings).json()["schema"]
    assert schema["properties"]["fetchNews"]["default"] == "false"
    assert page.get_by_text("official Jupyter news").count() == 0
