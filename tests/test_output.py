"""What ranks print, as it is kept and as a notebook shows it."""

from course_lib.launching import console
from course_lib.launching.console import Screen, TerminalText
from tests.kernels import Kernel, shown


def tape(*pieces):
    found = TerminalText()
    for piece in pieces:
        found.feed(piece)
    return found


def test_lines_are_complete_at_their_newline():
    found = TerminalText()
    assert found.feed(b"one\ntw") == [0]
    assert found.feed(b"o\n") == [1]
    assert found.rows == ["one", "two", ""]
    assert found.whole == "one\ntwo\n"


def test_a_letter_cut_in_two_is_put_together():
    euro = "€".encode()
    assert tape(euro[:1], euro[1:]).whole == "€"


def test_bytes_that_are_no_text_do_not_stop_anything():
    assert tape(b"\xff\xfe binary\n").whole == "\ufffd\ufffd binary\n"


def test_a_carriage_return_rewrites_the_line():
    assert tape(b"\r 10 %\r", b" 20 %").whole == " 20 %"


def test_a_shorter_text_leaves_the_end_of_the_longer_one():
    assert tape(b"12345\rab").whole == "ab345"


def test_a_windows_line_end_is_one_line_end():
    assert tape(b"one\r\ntwo\r\n").rows == ["one", "two", ""]


def test_a_windows_line_end_cut_in_two_keeps_the_line():
    assert tape(b"one\r", b"\ntwo\n").rows == ["one", "two", ""]


def test_nested_bars_stay_in_two_rows():
    found = tape(b"\router 0 %")
    for percent in (b"0", b"50", b"100"):
        found.feed(b"\n\rinner " + percent + b" %\x1b[A")
    found.feed(b"\router 1 %\n\n")
    assert found.rows == ["outer 1 %", "inner 100 %", ""]


def test_a_row_too_long_for_a_screen_is_cut_in_the_cell_and_kept_whole():
    found = screen((0, b"x" * 5000 + b"\n"))
    assert "... 3,000 more characters" in repr(found)
    assert len(found.texts[0].whole) == 5001


def screen(*writes, world_size=2):
    found = Screen(world_size, "2 ranks")
    for rank, data in writes:
        found.feed(rank, data)
    return found


def test_while_ranks_run_lines_are_in_order_of_arrival():
    text = repr(screen((1, b"first\n"), (0, b"second\n")))
    assert text.index("first") < text.index("second")


def test_bars_of_running_ranks_stay_below_their_lines():
    text = repr(screen((0, b"\r 50 %"), (1, b"done\n")))
    assert text.index("done") < text.index("50 %")


def test_afterwards_lines_are_in_rank_order():
    found = screen((1, b"first\n"), (0, b"second\n"))
    found.close("1 s")
    text = repr(found)
    assert text.index("[rank 0] second") < text.index("[rank 1] first")


def test_a_flood_is_cut_and_says_where_the_rest_is():
    found = screen((0, b"line\n" * 1000))
    found.close("1 s")
    assert "940 more lines: results.output[0]" in repr(found)
    assert repr(found).count("line") < 70


def test_what_runs_quietly_has_no_results_to_look_into():
    found = Screen(1, "one rank", quiet=True)
    found.feed(0, b"line\n" * 1000)
    found.close("1 s")
    assert "940 more lines" in repr(found)
    assert "results.output" not in repr(found)


def test_html_in_the_output_of_a_rank_is_text():
    assert "&lt;script&gt;" in screen((0, b"<script>\n"))._repr_html_()


def test_colour_codes_are_taken_out():
    assert "red" in repr(screen((0, b"\x1b[31mred\x1b[0m\n")))
    assert "\x1b" not in repr(screen((0, b"\x1b[31mred\x1b[0m\n")))


def test_on_a_terminal_every_line_carries_its_rank(capsys):
    screen((0, b"a\nb\n"), (1, b"c\n"))
    assert capsys.readouterr().out == "[rank 0] a\n[rank 0] b\n[rank 1] c\n"


def test_on_a_terminal_a_last_line_without_newline_is_shown(capsys):
    screen((0, b"no newline")).close("1 s")
    assert capsys.readouterr().out == "[rank 0] no newline\n"


QUIET = r"""
from course_lib.launching.console import Screen
one, other = (Screen(2, "2 ranks", quiet=True) for _ in range(2))
one.feed(0, b"hello\n")
one.close("1 s")
other.close("1 s")
"""


def test_a_quiet_screen_opens_with_the_first_output():
    kernel = Kernel()
    messages = kernel.run(QUIET)
    kernel.close()
    assert shown(messages) == "2 ranks, 1 s\n[rank 0] hello"


def test_a_clock_moves_once_a_second(monkeypatch):
    now, shows, ticks = [0.0], [], []
    area = type("Area", (), {"update": lambda self, screen: shows.append(repr(screen))})
    monkeypatch.setattr(console, "_open_area", lambda screen: area())
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    screen = Screen(2, "2 ranks", tick=ticks.append)
    for _ in range(10):
        now[0] += 0.25
        screen.refresh()
    screen.close("2.50 s")
    assert shows == ["2 ranks, 1 s …", "2 ranks, 2 s …", "2 ranks, 2.50 s"]
    assert ticks == [1, 2]


def test_to_show_output_takes_a_tenth_of_the_time_at_most(monkeypatch):
    now, shows = [0.0], []

    class Area:
        def update(self, screen):
            shows.append(now[0])
            now[0] += 1.0  # seconds that a huge row takes

    monkeypatch.setattr(console, "_open_area", lambda screen: Area())
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    screen = Screen(1, "one rank")
    for _ in range(60):
        now[0] += 0.5
        screen.feed(0, b"x")
        screen.refresh()
    assert shows == [0.5, 11.0, 21.5, 32.0]
