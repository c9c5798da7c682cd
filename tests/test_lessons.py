"""Lessons as they are committed: valid, fresh, with mistakes on purpose marked.

That every cell runs, and that what it then shows has texts for screen readers, is
proven by nbval, which this test run applies to notebooks/.
"""

import re
from pathlib import Path

import nbformat
import pytest

from course_lib.authoring import execute

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FOLDERS = "notebooks", "exercises", "solutions"
KINDS = ".ipynb", ".py"


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
    figures = [d for d in data if "image/png" in d]
    assert figures
    assert all("<img alt=" in "".join(d.get("text/html", "")) for d in figures)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_rank_counts_the_gpus_of_its_own_machine(folder):
    files = (path for path in (ROOT / folder).rglob("*") if path.suffix in KINDS)
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert texts
    # false on 2 machines of 8 GPUs, whose 16 ranks would all fall to gloo
    everywhere = re.compile(r"device_count\(\) >= (max\(2, )?world_size")
    assert not [name for name, text in texts.items() if everywhere.search(text)]
