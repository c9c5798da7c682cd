"""Sliders keep the old figure, and end in a sentence where their function fails."""

import pytest

import course_lib as cl
from course_lib.errors import UsageError
from tests.kernels import Kernel, error, shown

# what a move of the slider does: its message changes the value in the kernel
SET_UP = """
import ipywidgets
import course_lib as cl

def show(cap=5, fails=""):
    print("cap", cap)
    if fails:
        raise ValueError(fails)
    results = cl.launch(lambda rank, world_size: rank, world_size=2)
    cl.plot_sharding([[0, 2], [1, 3]])

panels = []
class Shown(ipywidgets.VBox):
    def __init__(self, children, **kwargs):
        super().__init__(children, **kwargs)
        panels.append(children)

from course_lib.lessons import explore
explore.ipywidgets.VBox = Shown
"""
EXPLORE = """
cl.explore(show, units={"cap": "MiB"}, cap=[1, 5, 10], fails=["", "no trace"])
"""
KINDS = "[sorted(o.get('data', o)) for o in panels[-1][3].outputs]"


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run(SET_UP)
    yield kernel
    kernel.close()


def test_the_first_figure_is_in_the_cell_and_in_its_text(kernel):
    messages = kernel.run(EXPLORE)
    assert error(messages) is None
    page = shown(messages, "text/html")
    assert "Run this cell to get its sliders" in page
    assert "<pre>cap 5" in page and "alt=" in page
    assert page.count("one thread each") == 1, "the last of what the launch has drawn"
    assert "application/vnd.jupyter.widget-view+json" in str(messages)


def test_a_slider_names_its_unit(kernel):
    kernel.run(EXPLORE)
    assert shown(kernel.run("panels[-1][0].description")) == "'cap (MiB)'"


def test_large_values_are_written_as_in_the_text(kernel):
    kernel.run("cl.explore(lambda n=1024, at=0.5: print(n), n=[8, 1024], at=[0.5, 1])")
    choices = shown(kernel.run("[panels[-1][i].options for i in (0, 1)]"))
    assert choices == "[(('8', 8), ('1,024', 1024)), (('0.5', 0.5), ('1', 1))]"


def test_a_move_replaces_the_figure_and_a_failure_keeps_it(kernel):
    kernel.run(EXPLORE)
    before = shown(kernel.run(KINDS))
    assert "image/png" in before
    assert error(kernel.run("panels[-1][0].value = 10")) is None
    assert "cap 10" in shown(kernel.run("panels[-1][3].outputs[0]['text']"))
    assert error(kernel.run("panels[-1][1].value = 'no trace'")) is None
    assert "No new figure: ValueError: no trace" in shown(
        kernel.run("panels[-1][2].value")
    )
    assert "cap 10" in shown(kernel.run("panels[-1][3].outputs[0]['text']"))
    assert shown(kernel.run(KINDS)) == before


def test_what_the_first_call_raises_is_the_cells_own_error(kernel):
    wrong = 'cl.explore(show, cap=[1, 5], fails=["first", "second"])'
    # the default of the function is not among the choices
    assert "explore() cannot make a slider of fails" in error(kernel.run(wrong))


@pytest.mark.parametrize(
    ("options", "why"),
    [({}, "needs an argument"), ({"cap": [1]}, "two values"), ({"cap": "a"}, "cap")]
    + [
        ({"cap": None}, "give a list"),
        ({"cap": [1, 2]}, "cap"),
        ({"cap": (1, 5)}, "7 lies outside"),
    ],
)
def test_what_cannot_be_a_slider_is_refused(options, why):
    def show(cap=7):
        raise AssertionError

    with pytest.raises(UsageError, match=why):
        cl.explore(show, **options)


def test_without_a_notebook_the_function_is_called_once(capsys):
    cl.explore(lambda x=5: print(x), x=[1, 5])
    cl.explore(lambda x: print(x), x=(1, 3))
    assert capsys.readouterr().out == "5\n2\n"
