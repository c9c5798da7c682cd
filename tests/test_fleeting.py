"""A line shows that something runs, where somebody looks, and is gone afterwards."""

import contextlib
import io
import sys
import time

import IPython.display
import pytest

from course_lib import display
from course_lib.display import progress_line
from tests.kernels import Kernel, shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal():
    """What is written to the terminal of a block; a fixture would end too early."""
    return contextlib.redirect_stderr(Terminal())


@pytest.fixture
def cell(monkeypatch):
    """What a notebook is given to show, in order: (what is done, data, place)."""
    given = []

    def note(name):
        def put(data, *, raw, display_id):
            assert raw
            given.append((name, data, display_id))

        return put

    monkeypatch.setattr(display, "in_notebook", lambda: True)
    for name in ("display", "update_display"):
        monkeypatch.setattr(IPython.display, name, note(name))
    return given


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(display, "_EVERY", 0)


def test_a_terminal_shows_text_and_share_and_then_an_empty_line(no_pause):
    with terminal() as written, progress_line("wait") as show:
        show("step 5", 0.25)
        shown = written.getvalue()
    assert shown == "\r\x1b[Kwait\r\x1b[K 25% step 5"
    assert written.getvalue() == f"{shown}\r\x1b[K"


def test_a_long_text_stays_on_one_line_of_a_terminal():
    with terminal() as written, progress_line("x" * 500):
        assert 50 < len(written.getvalue()) < 100


def test_nobody_looks_and_nothing_is_written(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_line("wait") as show:
        show("step 5", 0.25)
        show("step 6")
    assert sys.stderr.getvalue() == ""


def test_a_process_without_stderr_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with progress_line("wait") as show:
        show("step 5", 0.25)


def test_changes_come_no_more_often_than_an_eye_follows():
    start = time.monotonic()
    with terminal() as written, progress_line() as show:
        for step in range(10_000):
            show(f"step {step}", 0.5)
    allowed = 1 + (time.monotonic() - start) / display._EVERY
    assert 1 <= written.getvalue().count("step") <= allowed


def test_a_notebook_shows_one_bar_in_one_place_and_then_nothing(cell, no_pause):
    with progress_line("wait") as show:
        show("a < b", 0.25)
        show("the end", 1)
    assert [name for name, _, _ in cell] == ["display"] + 3 * ["update_display"]
    assert len({place for _, _, place in cell}) == 1
    first, second, _, last = (data for _, data, _ in cell)
    assert "<progress" not in first["text/html"]
    assert '<progress value="0.250"></progress> a &lt; b' in second["text/html"]
    assert second["text/plain"] == "a < b"
    assert last == {}


def test_a_notebook_without_news_shows_nothing(cell):
    with progress_line():
        pass
    assert cell == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_takes_the_line_away_and_goes_on(cell, error):
    with pytest.raises(error), progress_line("wait"):
        raise error
    assert cell[-1][1] == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_takes_the_line_of_a_terminal_away(error):
    with terminal() as written, pytest.raises(error), progress_line("wait"):
        raise error
    assert written.getvalue().endswith("\r\x1b[K")


SLIDER = """
from ipywidgets import IntSlider
from course_lib import display

def moved(change):
    with display.progress_line("training …"):
        print("moved to", change["new"])

slider = IntSlider(0, 0, 9)
slider.observe(moved, "value")
print("model", slider.model_id)
"""


def test_the_callback_of_a_slider_shows_no_line_which_it_could_not_take_away():
    kernel = Kernel()
    try:
        said = shown(kernel.run(SLIDER))
        model = said.split("model ")[1].split()[0]
        data = {"method": "update", "state": {"value": 5}, "buffer_paths": []}
        content = {"comm_id": model, "data": data}
        message = kernel.client.session.msg("comm_msg", content)
        kernel.client.shell_channel.send(message)
        messages = kernel.finish(message["header"]["msg_id"])
        assert "moved to 5" in shown(messages)
        assert "training" not in str(messages)
    finally:
        kernel.close()
