"""A line shows that something runs, where somebody looks, and is gone afterwards."""

import contextlib
import io
import queue
import sys
import time

import IPython.display
import pytest

from course_lib import cells, display
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


class Clock:
    """A `CellClock` whose time the test sets; `tick` waits for one look of it."""

    def __init__(self, monkeypatch):
        self.now, self.turns = 0.0, queue.Queue()
        self.asked, self.clock = queue.Queue(), cells.CellClock()
        monkeypatch.setattr(self.clock, "_over", self)
        monkeypatch.setattr(cells.time, "monotonic", lambda: self.now)

    # as of threading.Event
    def clear(self):
        pass

    def set(self):
        self.turns.put(True)

    def wait(self, seconds):
        self.asked.put(seconds)
        return self.turns.get()

    def tick(self, now):
        self.asked.get()  # it is at its place
        self.now = now
        self.turns.put(False)
        self.asked.put(self.asked.get())  # it has looked, and is there again


def said(cell):
    return [data.get("text/plain", "") for _, data, _ in cell]


def test_a_silent_cell_says_how_long_it_runs_and_then_nothing(cell, monkeypatch):
    clock = Clock(monkeypatch)
    clock.clock.begin()
    for now in (1.2, 2.2, 3.9):
        clock.tick(now)
    clock.clock.end()
    assert said(cell) == ["this cell runs, 2 s …", "this cell runs, 3 s …", ""]
    assert len({place for _, _, place in cell}) == 1


def test_a_cell_that_shows_something_needs_no_clock_of_its_own(cell, monkeypatch):
    clock = Clock(monkeypatch)
    clock.clock.begin()
    for now in (1.2, 2.2, 3.2):
        clock.now = now
        assert clock.clock.note("a message") == "a message"
        clock.tick(now + 0.1)
    assert cell == []
    clock.tick(5.3)  # it shows nothing new
    clock.clock.note("a message")
    clock.tick(6.3)
    clock.clock.end()
    assert said(cell) == ["this cell runs, 5 s …", "", ""]


def test_a_cell_that_runs_another_one_has_one_clock(cell, monkeypatch):
    clock = Clock(monkeypatch)
    clock.clock.end()  # of the cell that has installed it
    clock.clock.begin()
    clock.clock.begin()
    clock.clock.end()
    clock.tick(2.5)
    clock.clock.end()
    assert said(cell) == ["this cell runs, 2 s …", ""]


def shown_in_order(messages):
    """What a cell shows, each thing by its kind or its first words."""
    order = []
    for message in messages:
        content = message["content"]
        if message["msg_type"] == "error":
            order.append(content["ename"])
        elif message["msg_type"] in ("display_data", "execute_result"):
            order.append(content["data"]["text/plain"])
    return order


FOLLOW = "from course_lib import cells; cells.follow_cells()"


# a cell that waits until its clock was sent
UNTIL_SEEN = """
pub = get_ipython().display_pub
send, seen = pub.session.send, []
def watch(socket, kind, *more, **options):
    seen.append(str(kind))
    return send(socket, kind, *more, **options)
pub.session.send = watch
with {block}:
    while not any("this cell runs" in text for text in seen):
        time.sleep(0.01)
pub.session.send = send
"""


def test_in_a_notebook_the_clock_comes_from_beside_the_cell_and_goes_with_it():
    kernel = Kernel()
    try:
        kernel.run("import time, course_lib")
        kernel.run(FOLLOW)  # a kernel of these tests may have it imported already
        kernel.run("from contextlib import nullcontext")
        messages = kernel.run(UNTIL_SEEN.format(block="nullcontext()"))
        assert "this cell runs" in str(messages)
        assert shown(messages) == ""
    finally:
        kernel.close()


def test_the_clock_is_seen_where_a_sliders_function_has_its_output_captured():
    kernel = Kernel()
    try:
        kernel.run("import time, course_lib")
        kernel.run(FOLLOW)
        kernel.run("from IPython.utils.capture import capture_output")
        block = "capture_output() as captured"
        messages = kernel.run(UNTIL_SEEN.format(block=block))
        messages += kernel.run("print('captured', len(captured.outputs))")
        assert "this cell runs" in str(messages)
        assert "captured 0" in str(messages)
    finally:
        kernel.close()


def test_what_comes_after_a_cell_stands_below_its_result_and_its_error():
    kernel = Kernel()
    try:
        kernel.run("from course_lib.cells import after_cell")
        code = "after_cell(lambda: display('below')); display('above'); {}"
        assert shown_in_order(kernel.run(code.format("1 + 1"))) == [
            "'above'",
            "2",
            "'below'",
        ]
        assert shown_in_order(kernel.run(code.format("1 / 0"))) == [
            "'above'",
            "ZeroDivisionError",
            "'below'",
        ]
        assert shown_in_order(kernel.run("3")) == ["3"], "once is enough"
    finally:
        kernel.close()
