"""Running notebooks from the command line and keeping their outputs."""

import nbformat
import pytest

from course_lib.authoring import code, drawing, execute

DRAW = "import matplotlib.pyplot as plt; plt.plot([1, 2]);"


def notebook(tmp_path, *sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


def test_outputs_are_saved_with_their_counts_and_without_times(tmp_path):
    path = notebook(tmp_path, "1 + 1", "print('hello')")
    assert execute.main(["--save", str(path)]) == 0
    first, second = nbformat.read(path, as_version=4).cells
    assert first.outputs[0].data["text/plain"] == "2"
    assert (first.execution_count, second.execution_count) == (1, 2)
    assert "execution" not in first.metadata


def test_a_list_of_all_exercises_is_not_kept(tmp_path):
    path = notebook(tmp_path, "import course_lib as cl", "cl.summary()", "1 + 1")
    assert execute.main(["--save", str(path)]) == 0
    _, summary, other = nbformat.read(path, as_version=4).cells
    assert (summary.outputs, summary.execution_count) == ([], 2) and other.outputs


def test_saving_twice_gives_the_same_bytes(tmp_path):
    path = notebook(tmp_path, "1 + 1", DRAW)
    execute.main(["--save", str(path)])
    once = path.read_bytes()
    execute.main(["--save", str(path)])
    assert path.read_bytes() == once


def test_outputs_are_stale_once_the_code_has_changed(tmp_path):
    path = notebook(tmp_path, "1 + 1")
    execute.main(["--save", str(path)])
    saved = nbformat.read(path, as_version=4)
    assert not execute.stale(saved)
    saved.cells[0].source = "1 + 2"
    assert execute.stale(saved)


def test_outputs_are_stale_once_what_draws_them_has_changed(tmp_path, monkeypatch):
    path, plot = notebook(tmp_path, "1 + 1"), tmp_path / "plot.py"
    plot.write_text("old = 1")
    monkeypatch.setattr(drawing, "sources", lambda code: [plot] * ("1 + 1" in code))
    execute.main(["--save", str(path)])
    saved = nbformat.read(path, as_version=4)
    assert not execute.stale(saved)
    plot.write_text("# it is old\nold = (1)\n")
    assert not execute.stale(saved)
    plot.write_text("old = 2")
    assert execute.stale(saved)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ('def f(x):\n    """One."""\n    return x', "def f(x): return x  # x", True),
        ('"""A module."""\nx = None', "x = None", True),
        ("x = 0", "x = False", False),
        ("x = None", "x = ''", False),
        ('def f(x):\n    return """One."""', "def f(x): return", False),
    ],
)
def test_code_is_alike_without_its_comments_docstrings_and_layout(one, other, alike):
    assert (code.plain(one) == code.plain(other)) == alike


def test_of_a_module_only_what_is_used_counts():
    source = "A = 1\nB = 2\ndef f():\n    return B\ndef g():\n    return A"
    names = [getattr(node, "name", "B") for node in code.definitions(source, {"f"})]
    assert names == ["B", "f"]


def test_a_colour_counts_where_it_is_used():
    def colors(drawing_code):
        return " ".join(drawing.drawn(drawing_code))

    assert "MEMORY_COLORS" in colors("cl.plot_memory(m)")
    assert "MEMORY_COLORS" not in colors("cl.plot_transfers(t)")


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("train()", ""),
        ("cl.plot_bars({})", "bars.py figure.py"),
        (
            "scenes.dealing(samples=4)",
            "arguments.py dealing.py items.css items.py scene.css scene.js scene.py"
            " svg.py",
        ),
    ],
)
def test_what_draws_a_figure_is_what_its_code_names_and_what_that_imports(cell, names):
    assert [path.name for path in drawing.sources(cell)] == names.split()


def test_a_scene_of_a_trace_is_drawn_by_the_plot_of_it_too():
    paths = drawing.sources("scenes.timeline(run.trace)")
    names = {f"{path.parent.name}/{path.name}" for path in paths}
    assert {
        "plots/timeline.py",
        "scenes/timeline.py",
        "scenes/timeline_bars.py",
    } < names


def test_a_failing_cell_is_reported_and_nothing_is_saved(tmp_path, capsys):
    path = notebook(tmp_path, "1 / 0")
    before = path.read_bytes()
    assert execute.main(["--save", str(path)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_too_much_output_is_refused_with_the_cell(tmp_path, capsys):
    path = notebook(tmp_path, "1 + 1", "print('x' * 500_000)")
    assert execute.main(["--save", str(path)]) == 1
    assert "cell cell-1 alone has" in capsys.readouterr().err


def test_sliders_are_replaced_by_a_sentence(tmp_path):
    source = "from ipywidgets import IntSlider; IntSlider()"
    path = notebook(tmp_path, source)
    assert execute.main(["--save", str(path)]) == 0
    saved = nbformat.read(path, as_version=4)
    assert "sliders" in saved.cells[0].outputs[0].data["text/plain"]
    assert "widgets" not in saved.metadata


def test_a_missing_notebook_is_named(tmp_path, capsys):
    assert execute.main([str(tmp_path / "none.ipynb")]) == 1
    assert "none.ipynb" in capsys.readouterr().err


def test_without_save_the_file_stays_as_it_was(tmp_path):
    path = notebook(tmp_path, "1 + 1")
    before = path.read_bytes()
    assert execute.main([str(path)]) == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("tag", ["raises-exception"])
def test_a_mistake_on_purpose_is_kept(tmp_path, tag):
    path = notebook(tmp_path, "1 / 0", "2")
    written = nbformat.read(path, as_version=4)
    written.cells[0].metadata["tags"] = [tag]
    nbformat.write(written, path)
    assert execute.main(["--save", str(path)]) == 0
    assert (
        nbformat.read(path, as_version=4).cells[0].outputs[0].ename
        == "ZeroDivisionError"
    )


def test_the_folder_of_this_machines_python_is_not_kept(tmp_path):
    path = notebook(tmp_path, "import sys; print(sys.base_prefix + '/lib')")
    execute.main(["--save", str(path)])
    (cell,) = nbformat.read(path, as_version=4).cells
    assert cell.outputs[0].text == "/usr/lib\n"


GONE = """
from IPython.display import display
line = display({"text/plain": "wait"}, raw=True, display_id=True)
line.update({}, raw=True)
"""


def test_a_line_that_was_taken_away_again_is_not_kept(tmp_path):
    path = notebook(tmp_path, GONE)
    execute.main(["--save", str(path)])
    (cell,) = nbformat.read(path, as_version=4).cells
    assert cell.outputs == []
