"""Lessons as they are committed: valid, fresh, with mistakes on purpose marked.

That every cell runs, and that what it then shows has texts for screen readers, is
proven in JupyterLab by test_browser_lessons.py; without Chromium, by nbval.
"""

import re
from pathlib import Path

import nbformat
import pytest

from benchmarks import lesson_times, timed
from benchmarks.lesson_times import FULL, MOST
from course_lib.authoring import execute
from course_lib.lessons import guess

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FOLDERS = "notebooks", "exercises", "solutions"
KINDS = ".ipynb", ".py"
_SPAN = r"(about |some |up to )*\d+( to \d+)? ?(s|seconds?|minutes?)\b"
ANNOUNCED = re.compile(rf"(cell|run|this|it) takes {_SPAN}|\({_SPAN}\.?\)", re.I)
ASKED = re.compile(r'cl\.guess\(\s*"([\w-]+)"')


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request):
    notebook = nbformat.read(request.param, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_is_a_first_lesson():
    assert LESSONS[0].name == "00_start_here.ipynb"


def test_stored_outputs_belong_to_the_code_above_them(lesson):
    assert not execute.stale(lesson), "run: python -m course_lib run --save NOTEBOOK"


def test_cells_have_names_for_ids(lesson):
    ids = [cell.id for cell in lesson.cells]
    assert len(set(ids)) == len(ids)
    assert all(
        not name[:8].isalnum() or not any(map(str.isdigit, name)) for name in ids
    )


def test_only_a_cell_that_breaks_on_purpose_ends_in_an_error(lesson):
    for cell in code_cells(lesson):
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert failed == ("raises-exception" in cell.metadata.get("tags", []))


def test_lines_of_code_fit_a_projector(lesson):
    lines = [line for cell in code_cells(lesson) for line in cell.source.split("\n")]
    assert not [line for line in lines if len(line) > 82]


def test_every_stored_figure_has_text_for_screen_readers(lesson):
    data = [o.get("data", {}) for cell in code_cells(lesson) for o in cell.outputs]
    pages = ["".join(d.get("text/html", "")) for d in data]
    # those of scenes and sliders are in their pages alone
    figures = [d for d, page in zip(data, pages) if "image/png" in d or "<img" in page]
    assert figures
    assert all("<img alt=" in "".join(d.get("text/html", "")) for d in figures)


def test_the_first_lesson_explains_what_figures_say_and_links_to_more():
    cells = nbformat.read(LESSONS[0], as_version=4).cells
    ids = [cell.id for cell in cells]
    text = cells[ids.index("timeline-read")].source
    assert ids.index("timeline-read") == ids.index("timeline") + 1  # the first trace
    for word in ("Measured", "Modelled", "Disturbed", "Hidden"):
        assert f"*{word}*" in text, word
    for heading in ("play-a-scene", "read-the-grey-line"):
        assert f"](../docs/lessons.md#{heading})" in text, heading


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_rank_counts_the_gpus_of_its_own_machine(folder):
    files = (path for path in (ROOT / folder).rglob("*") if path.suffix in KINDS)
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert texts
    # false on 2 machines of 8 GPUs, whose 16 ranks would all fall to gloo
    everywhere = re.compile(r">= (max\(2, )?world_size|[^_]world_size <= gpus")
    assert not [name for name, text in texts.items() if everywhere.search(text)]


def test_a_lesson_can_be_read_in_its_time(lesson, request, record_property):
    counts = lesson_times.length(lesson.cells)._asdict()
    counts["minutes"] = lesson.metadata["course"]["minutes"]
    full = [f"{counts[name]} {name}" for name in FULL if counts[name] > FULL[name]]
    if full:
        limits = ", ".join(f"{most} {name}" for name, most in FULL.items())
        told = f"is full: {', '.join(full)} (warned above {limits})"
        record_property("summary", f"{request.node.callspec.id} {told}")
    assert not [name for name in MOST if counts[name] > MOST[name]]
    assert counts["guesses"] >= lesson_times.least_guesses(lesson)


def test_each_lesson_has_something_to_move(lesson):
    sources = [cell.source for cell in code_cells(lesson)]
    assert any(re.search(r"\bcl\.explore\(|\bscenes\.\w+\(", s) for s in sources)


def test_no_text_of_a_lesson_announces_how_many_seconds_a_cell_takes(lesson):
    # a busy or an old machine takes many times as long: in words, a clock counts
    texts = [cell.source for cell in lesson.cells if cell.cell_type == "markdown"]
    assert not [text for text in texts if ANNOUNCED.search(text)]


@pytest.mark.parametrize(
    ("text", "announces"),
    [
        ("The cell takes about 30 seconds.", True),
        ("(This takes 2 to 3 minutes.)", True),
        ("The run takes some 10 s.", True),
        ("(About 20 seconds.)", True),
        ("(Some seconds.) A clock runs.", False),
        ("After 10 minutes nccl's watchdog ends the run.", False),
        ("**About 55 minutes. Needs no GPU.**", False),
        ("each step stands for 20 minutes on one GPU, which takes up to 16", False),
        ("gloo's timeout ends it, after 30 minutes", False),
    ],
)
def test_what_is_an_announcement_of_seconds(text, announces):
    assert bool(ANNOUNCED.search(text)) == announces


def test_a_timed_guess_was_stored_as_a_quiet_machine_answers_it(lesson):
    shown = [timed.answer(cell.outputs) for cell in code_cells(lesson)]
    answers = [answer for answer in shown if answer]
    assert len(answers) == len(timed.asked(lesson.cells))
    assert all(quiet for quiet, _ in answers), answers


def test_the_table_of_times_has_a_row_for_each_lesson():
    text = Path(lesson_times.__file__).with_suffix(".md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d[a-z]?) \|", text, re.M)
    assert rows == [path.stem.partition("_")[0] for path in LESSONS]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_each_guess_has_a_name_of_its_own_and_something_before_it_that_decides(path):
    texts = guess.read_sentences(path.stem.partition("_")[0])
    names, before = [], []
    for cell in nbformat.read(path, as_version=4).cells:
        for name in ASKED.findall(cell.source):
            names.append(name)
            assert texts[name]["decided by"] in before, (
                f"`decided by` of {name}: the id of a cell that stands before the guess"
            )
            clock = any(found == name for _, found in timed.TIMED.findall(cell.source))
            assert ("disturbed" in texts[name]) == clock, name
        before.append(cell.id)
    assert sorted(names) == sorted(texts.sections())  # once each
