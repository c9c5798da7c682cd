"""Grades shown to people and written for programs."""

import csv
import dataclasses
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

import course_lib
from course_lib.errors import UsageError
from course_lib.grading import grades
from course_lib.grading.grades import Grade, Task
from course_lib.grading.report import files, pages, summary, terminal
from course_lib.workspace import atomic

HOSTILE = "<script>alert(1)</script> \x1b[31mred\x1b[0m [red]x[/]\r\n=1+1\u202e\udc80"
NOTEBOOK = "04_distributed_data_parallel"
MISTAKE = "rank 2 of 4 gets [2, 6] of 10 samples, expected [2, 6, 0]"


def task(exercise, outcome=grades.RIGHT, **texts):
    points = 2.0 if outcome == grades.RIGHT else 0.0
    return Task(exercise, points, 2.0, outcome, **texts)


def grade(learner, *tasks, status=grades.GRADED, notebook=NOTEBOOK, **more):
    source = f"week4/{learner}/{notebook}.ipynb"
    return Grade(notebook, learner, source, status, tasks, **more)


def answers(learner, outcomes, **more):
    """A grade with the exercises 4.1, 4.2 … of these outcomes."""
    tasks = [task(f"4.{n}", outcome) for n, outcome in enumerate(outcomes, 1)]
    return grade(learner, *tasks, **more)


def people(*outcomes):
    """A grade with these outcomes for each learner."""
    return [answers(f"learner {n}", some) for n, some in enumerate(outcomes)]


def hostile():
    bad = task("4.1", grades.NOT_YET, message=HOSTILE, hint=HOSTILE)
    texts = {"message": HOSTILE, "repairs": (HOSTILE,), "notebook": HOSTILE}
    return grade(HOSTILE, bad, status=grades.FLAGGED, **texts)


def failed(learner="max"):
    return grade(learner, status=grades.FAILED, message="no kernel could be started")


def shown(*found, width=80, **console):
    file = io.StringIO()
    terminal.show(found, Console(file=file, width=width, **console))
    return file.getvalue()


def row(text, learner):
    """The words of the line that begins with the learner's name."""
    return next(x.split() for x in text.splitlines() if x.startswith(learner))


class Terminal(io.StringIO):
    def isatty(self):
        return True


# what a text may hold


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]8;;http://x.org\x1b\\link\x1b]8;;\x07", "link"),
        ("a\x07b\x00c\x7fd\x85e", "abcde"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("ab\u202edc\u2066", "abdc"),
        ("\udc80", "\ufffd"),
        ("\n  code\tx \n", "  code  x"),
    ],
)
def test_text_loses_what_a_terminal_would_obey(text, harmless):
    assert summary.clean(text) == harmless


def test_a_text_without_end_is_cut_and_says_so():
    assert summary.clean("x" * 30_000).endswith("x\n(10000 more characters)")


def test_a_mark_that_is_shown_beside_a_sentence_is_not_in_it_again():
    texts = {"message": f"✗ 4.1 not yet: {MISTAKE}", "hint": "Hint: Pad it."}
    said = task("4.1", grades.NOT_YET, **texts)
    assert summary.sentence(said) == MISTAKE
    assert summary.hint(said) == "Pad it."


# what many grades say together


def test_exercises_are_counted_with_the_most_missed_first():
    first = answers("ada", [grades.RIGHT, grades.NOT_YET, grades.NOT_STARTED])
    second = answers("bob", [grades.RIGHT, grades.RIGHT, grades.CRASHED])
    found = summary.counts([first, second])
    assert [(c.id, c.missed, c.total) for c in found] == [
        ("4.3", 2, 2),
        ("4.2", 1, 2),
        ("4.1", 0, 2),
    ]


def test_what_the_grader_failed_on_is_in_no_mean_and_no_count():
    broken = answers("max", [grades.NOT_YET], status=grades.FAILED)
    found = [answers("ada", [grades.RIGHT]), broken, failed()]
    assert [one.mean for one in summary.points(found)] == [2.0]
    assert [count.total for count in summary.counts(found)] == [1]


def test_exercises_keep_the_order_of_the_notebook_that_has_most():
    some = grade("ada", task("4.10"))
    more = grade("bob", task("4.9"), task("4.10"))
    assert summary.exercises([some, more]) == {NOTEBOOK: ["4.9", "4.10"]}


def test_learners_are_in_the_order_of_a_telephone_book():
    people = summary.learners([failed("bob"), failed("Cleo"), failed("Ada")])
    assert list(people) == ["Ada", "bob", "Cleo"]


# the table


def test_a_row_has_points_and_a_mark_for_each_exercise():
    outcomes = [grades.RIGHT, grades.NOT_YET, grades.NOT_STARTED]
    text = shown(answers("ada", outcomes), answers("bob", [grades.LATE] * 3))
    assert row(text, NOTEBOOK) == [NOTEBOOK, "points", "4.1", "4.2", "4.3"]
    assert row(text, "ada") == ["ada", "2", "of", "6", "✓", "✗", "○"]
    assert row(text, "bob") == ["bob", "0", "of", "6", "…", "…", "…"]


def test_the_legend_names_the_marks_that_occur():
    text = shown(answers("ada", [grades.RIGHT]), answers("bob", [grades.CRASHED]))
    assert "✓ right  ! crashed\n" in text


def test_eight_exercises_fit_eighty_columns():
    outcomes = [grades.RIGHT] * 8
    text = shown(answers("ada", outcomes), answers("bob", outcomes))
    assert row(text, "ada").count("✓") == 8
    assert "4.8" in row(text, NOTEBOOK)
    assert max(map(len, text.splitlines())) <= 80


def test_a_long_name_of_a_notebook_leaves_room_for_marks_and_flag():
    found = [
        answers(x, [grades.SUSPECT] * 8, notebook="x" * 90) for x in ("ada", "bob")
    ]
    text = shown(*found)
    assert row(text, "ada") == ["ada", "0", "of", "16", *"????????", "⚑"]


def test_marks_of_many_exercises_stand_together():
    outcomes = [grades.RIGHT] * 30
    text = shown(answers("ada", outcomes), answers("bob", outcomes))
    assert row(text, "ada")[-1] == "✓" * 30


def test_totals_name_the_mean_and_three_most_missed():
    missed = [grades.NOT_YET] * 4
    text = shown(answers("ada", [grades.RIGHT, *missed]), answers("bob", missed))
    assert "04_distributed_data_parallel: 1.0 of 10 points on average, 2 graded" in text
    assert "Most missed: 4.2 by 2 of 2, 4.3 by 2 of 2, 4.4 by 2 of 2\n" in text


def test_a_learner_of_several_notebooks_sees_all_points_together():
    other = grade("ada", task("5.1"), notebook="05_shared_tensors")
    text = shown(answers("ada", [grades.NOT_YET]), other)
    assert "Together 2 of 4 points" in text
    assert "on average" not in text
    other = grade("bob", task("5.1"), notebook="05_shared_tensors")
    assert "Together" not in shown(answers("ada", [grades.NOT_YET]), other)


def test_what_a_person_must_look_at_is_named_with_its_sentence():
    refused = grade("ada", status=grades.REFUSED, message="the file has 31 MB.")
    text = shown(refused, failed(), answers("bob", [grades.SUSPECT]))
    assert "look at 3:" in text
    assert f"⚑ ada, {NOTEBOOK}, refused\n  the file has 31 MB." in text
    assert f"⚑ max, {NOTEBOOK}, not graded\n  no kernel could be started" in text
    assert "the check of 4.1 may have been changed." in text


def test_two_files_of_one_learner_are_told_apart():
    first = grade("ada", task("4.1"))
    second = Grade(NOTEBOOK, "ada", "week4/ada/again.ipynb", grades.GRADED, first.tasks)
    text = shown(first, second, width=100)
    assert "ada week4/ada/again.ipynb" in text


def test_a_single_submission_is_shown_in_full():
    said = {"message": f"✗ 4.1 not yet: {MISTAKE}\n  --> 3  code", "hint": "Pad it."}
    one = grade("ada", task("4.1", grades.NOT_YET, **said), repairs=("4.2 was text",))
    assert shown(one) == (
        f"ada, {NOTEBOOK}: 0 of 2 points\n\n"
        f"✗ 4.1 not yet, 0 of 2 points\n  {MISTAKE}\n    --> 3  code\n  Hint: Pad it.\n"
        "\nMended or left out:\n  - 4.2 was text\n"
    )


def test_a_learner_who_grades_several_notebooks_reads_why(tmp_path):
    wrong = task("4.1", grades.NOT_YET, message=MISTAKE, hint="Pad it.")
    open_ = task("4.2", grades.NOT_STARTED, message="Write it in the cell above.")
    other = grade("ada", task("5.1"), notebook="05_shared_tensors")
    text = shown(grade("ada", wrong, open_, repairs=("4.2 was text",)), other)
    assert text.endswith(
        f"\n✗ 4.1 not yet, 0 of 2 points\n  {MISTAKE}\n  Hint: Pad it.\n"
        f"\nMended or left out in {NOTEBOOK}:\n  - 4.2 was text\n"
    )
    assert MISTAKE not in shown(grade("ada", wrong), grade("bob", wrong))


def test_of_several_files_of_a_learner_the_best_counts_and_it_is_said(tmp_path):
    tries = people([grades.NOT_YET, grades.RIGHT], [grades.RIGHT, grades.RIGHT])
    tries = [dataclasses.replace(one, learner="ada") for one in tries]
    found = [*tries, answers("bob", [grades.NOT_YET, grades.RIGHT])]
    assert f"{NOTEBOOK}: 3.0 of 4 points on average, 2 graded" in shown(*found)
    assert "The best of several files counts: ada\n" in shown(*found)
    assert "Most missed: 4.1 by 1 of 2" in shown(*found)
    assert "of several files the best counts: ada" in pages.overview(found)["facts"]
    pages.write_pages(found, tmp_path)
    assert "ada : 4 of 4 points" in plain(page(tmp_path, "ada"))


def test_whose_notebook_was_mended_is_said_to_the_teacher():
    mended = grade("ada", task("4.1"), repairs=("4.2 was text",))
    found = [mended, grade("bob", task("4.1"))]
    assert "Mended or left out (--html tells what): ada\n" in shown(*found)
    assert "1 mended (their pages tell what)" in pages.overview(found)["facts"]


def test_a_single_submission_that_failed_shows_no_points():
    text = shown(answers("ada", [grades.NOT_YET], status=grades.FAILED))
    assert "not graded" in text
    assert "0 of" not in text


def test_a_row_that_failed_has_no_marks():
    broken = answers("max", [grades.NOT_YET], status=grades.FAILED)
    text = shown(answers("ada", [grades.RIGHT]), broken)
    assert row(text, "max") == ["max", "not", "graded", "⚑"]
    assert "✓ right  ⚑ see below\n" in text


def test_colours_are_only_where_the_console_has_them():
    found = [answers("ada", [grades.RIGHT]), answers("bob", [grades.RIGHT])]
    assert "\x1b[" not in shown(*found)
    assert "\x1b[32m ✓" in shown(*found, force_terminal=True, color_system="standard")


@pytest.mark.parametrize("count", [1, 2])
def test_hostile_text_is_shown_in_a_terminal_as_it_is(count):
    text = shown(*[hostile()] * count, width=400)
    assert "[red]x[/]" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\udc80]", text)


# progress


def test_progress_is_a_plain_line_per_submission_outside_a_terminal():
    file = io.StringIO()
    # as in a log of continuous integration
    console = Console(file=file, width=20, force_terminal=True)
    with terminal.Progress(2, console) as progress:
        progress.start("[red]a")
        progress.finish("[red]a", answers("[red]a", [grades.RIGHT]))
        progress.finish("b", failed("b"))
    assert file.getvalue() == (
        f"[1/2] [red]a {NOTEBOOK} 2 of 2\n[2/2] b {NOTEBOOK} not graded\n"
    )


def test_progress_in_a_terminal_shows_how_many_are_done_and_what_is_in_work(
    monkeypatch, capsys
):
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    console = Console(file=file, width=80, force_terminal=True, force_interactive=True)
    with terminal.Progress(2, console) as progress:
        progress.start("ada")
        progress.start("\x1b[5m[red]bob")
        progress.finish("ada", answers("ada", [grades.RIGHT]))
        progress._bar.refresh()
        print("said elsewhere")
    last = file.getvalue().split("\r")
    assert any("1/2" in drawn and "[red]bob" in drawn for drawn in last)
    assert NOTEBOOK not in file.getvalue()
    assert capsys.readouterr().out == "said elsewhere\n"
    assert "\x1b[5m" not in file.getvalue()


# files


def test_json_gives_back_the_same_grades(tmp_path):
    found = [answers("ada", [grades.RIGHT], repairs=("x",), seconds=1.5), hostile()]
    files.write_json(found, tmp_path / "new" / "grades.json")
    read = json.loads((tmp_path / "new" / "grades.json").read_text())["submissions"]
    assert [grades.from_dict(one) for one in read] == found
    assert [one["points"] for one in read] == [2.0, 0.0]


def test_json_holds_no_character_that_a_terminal_would_obey():
    assert files.as_json([hostile()]).replace("\n", "").isascii()
    assert not re.search("[\x00-\x09\x0b-\x1f]", files.as_json([hostile()]))


def test_json_has_no_points_where_the_grader_failed():
    read = json.loads(files.as_json([failed()]))["submissions"]
    assert [one["points"] for one in read] == [None]


def test_csv_has_a_column_for_each_exercise_in_order(tmp_path):
    other = grade("bob", task("5.1"), notebook="05_shared_tensors")
    files.write_csv([other, answers("李", [grades.RIGHT, "late"])], tmp_path / "g.csv")
    head, *rows = csv.reader(io.StringIO((tmp_path / "g.csv").read_text("utf-8-sig")))
    assert head[:4] == ["learner", "notebook", "points", "max_points"]
    assert head[4:] == ["status", "source", "4.1", "4.2", "5.1"]
    assert rows[0][:5] + rows[0][6:] == [
        *("bob", "05_shared_tensors", "2", "2", "graded"),
        *("", "", "2"),
    ]
    assert rows[1][:5] + rows[1][6:] == [
        *("李", NOTEBOOK, "2", "4", "graded"),
        *("2", "0", ""),
    ]


def test_csv_begins_with_the_mark_by_which_excel_knows_utf_8(tmp_path):
    files.write_csv([failed()], tmp_path / "g.csv")
    assert (tmp_path / "g.csv").read_bytes().startswith(b"\xef\xbb\xbflearner,")


def test_csv_has_no_points_where_the_grader_failed():
    broken = answers("max", [grades.NOT_YET], status=grades.FAILED)
    (read,) = csv.DictReader(io.StringIO(files.as_csv([broken])))
    assert (read["points"], read["max_points"], read["4.1"]) == ("", "", "")
    assert read["status"] == "grader failed"


@pytest.mark.parametrize("begin", [*"=+-@＝", "\t=", "\r=", " =", "\x1b[m="])
def test_no_cell_of_a_csv_is_a_formula(begin):
    text = f"{begin}1"
    bad = Grade(text, text, text, text, (task(text),))
    head, read = csv.reader(io.StringIO(files.as_csv([bad])))
    cells = [head[-1], *(read[n] for n in (0, 1, 4, 5))]
    assert all(cell[0] == "'" for cell in cells)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "grades.json"
    path.write_text("before")
    monkeypatch.setattr(atomic.os, "replace", refuse)
    with pytest.raises(UsageError, match="cannot write .*No space left"):
        files.write_json([failed()], path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def refuse(*_):
    raise OSError(28, "No space left on device")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    # not /dev/null: a mistake here would take it from the whole machine
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(tmp_path / "pipe", "grades")
    assert os.read(reader, 100) == b"grades"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    link, file = tmp_path / "link.json", tmp_path / "file.json"
    file.write_text("before")
    link.symlink_to(file)
    files.write_json([failed()], link)
    assert link.is_symlink()
    assert "no kernel" in file.read_text()


# pages


def page(folder, learner):
    return (folder / files.page_name(learner)).read_text()


def plain(text):
    """The text of a page as its reader sees it."""
    body = re.sub("<(style|title)>.*?</\\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", body)).split())


def test_the_package_as_it_is_installed_holds_the_templates(tmp_path):
    root = Path(course_lib.__file__).parents[1]
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "course_lib", tmp_path / "course_lib", ignore=left_out)
    shutil.copy(root / "pyproject.toml", tmp_path)
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    command = [sys.executable, "-c", build]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as wheel:
        packed = wheel.namelist()
    names = pages._templates.loader.list_templates()
    assert {"base.html", "learner.html", "overview.html", "style.css"} <= {*names}
    for name in names:
        assert f"course_lib/grading/report/templates/{name}" in packed
        assert pages._templates.get_template(name)


def test_a_learner_sees_points_sentence_hint_and_code(tmp_path):
    said = {"message": f"{MISTAKE}\n  --> 3  a = b", "hint": "Pad it first."}
    one = grade("ada", task("4.1", grades.NOT_YET, **said), repairs=("4.2 was text",))
    pages.write_pages([one], tmp_path)
    text = plain(page(tmp_path, "ada"))
    for part in ("ada : 0 of 2 points", "✗ 4.1 not yet", MISTAKE, "Hint Pad it first."):
        assert part in text
    assert "<pre>  --&gt; 3  a = b</pre>" in page(tmp_path, "ada")
    assert "Mended or left out 4.2 was text" in text


def test_a_learner_sees_no_exercises_where_the_grader_failed(tmp_path):
    broken = answers("max", [grades.NOT_YET], status=grades.FAILED)
    pages.write_pages([broken], tmp_path)
    assert "not graded" in plain(page(tmp_path, "max"))
    assert "4.1" not in plain(page(tmp_path, "max"))


def test_a_learner_sees_nothing_of_others(tmp_path):
    both = [answers("ada", [grades.RIGHT]), answers("bob", [grades.NOT_YET])]
    pages.write_pages(both, tmp_path / "both")
    pages.write_pages(both[:1], tmp_path / "alone")
    assert page(tmp_path / "both", "ada") == page(tmp_path / "alone", "ada")


def test_all_notebooks_of_a_learner_are_on_one_page(tmp_path):
    other = grade("ada", task("5.1"), notebook="05_shared_tensors")
    found = [answers("ada", [grades.NOT_YET]), other, failed("ada")]
    pages.write_pages(found, tmp_path)
    text = plain(page(tmp_path, "ada"))
    assert "ada : 2 of 4 points, 1 notebook without points" in text
    assert "05_shared_tensors: 2 of 2 points" in text
    assert f"{NOTEBOOK}: not graded" in text
    assert "⚑ no kernel could be started" in text


def test_hostile_text_is_escaped_on_all_pages(tmp_path):
    pages.write_pages([hostile(), hostile()], tmp_path)
    for path in (tmp_path / "index.html", tmp_path / files.page_name(HOSTILE)):
        text = path.read_text(encoding="utf-8")
        assert "&lt;script&gt;alert(1)&lt;/script&gt; red [red]x[/]" in text
        assert "<script" not in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_pages_load_nothing_and_run_nothing(tmp_path):
    pages.write_pages([answers("ada", [grades.RIGHT]), hostile()], tmp_path)
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert not re.search(r"<(script|link|img|iframe)|url\(|@import", text)
        assert "default-src 'none'" in text


def test_the_overview_says_which_exercise_most_people_missed():
    missed = people(*[[grades.RIGHT, grades.NOT_YET]] * 2)
    right = answers("bob", [grades.NOT_STARTED, grades.RIGHT])
    seen = pages.overview([*missed, right])
    assert seen["missed_title"] == "4.2 was missed by 2 of 3, more than any other"
    assert [bar["label"] for bar in seen["bars"]] == [
        "4.2: 2 not yet, 1 right",
        "4.1: 1 not started, 2 right",
    ]


def test_rare_outcomes_are_drawn_together_and_named_where_they_occur():
    seen = pages.overview(people([grades.LATE], [grades.CRASHED]))
    assert [bar["label"] for bar in seen["bars"]] == [
        "4.1: 2 too slow, crashed or suspect"
    ]
    assert [one["kind"] for one in seen["legend"]] == ["other"]


def test_the_overview_does_not_call_one_of_two_equals_the_most_missed():
    seen = pages.overview(people(*[[grades.NOT_YET] * 2] * 2))
    assert seen["missed_title"] == "4.1 was missed by 2 of 2"


def test_the_overview_leaves_out_of_its_mean_what_was_not_graded():
    seen = pages.overview([*people([grades.RIGHT], [grades.RIGHT]), failed()])
    assert seen["title"] == "3 submissions: 100 % of the points on average"
    assert "1 not graded, because the grader failed" in seen["facts"]
    assert seen["plots_title"].startswith("The mean is 2.0 of 2 points, and half of")
    assert seen["plots"][0]["axis"] == "points of 2: mean 2.0, 2 graded"


def test_the_overview_says_what_half_of_all_reach():
    points = [[grades.RIGHT] * n + [grades.NOT_YET] * (3 - n) for n in range(4)]
    seen = pages.overview(people(*points))
    assert seen["plots_title"].endswith("and half of the 4 have 4 or more")


def test_the_overview_names_the_notebook_with_the_lowest_mean():
    wrong = [answers(x, [grades.NOT_YET, grades.RIGHT]) for x in ("ada", "bob")]
    right = [
        grade(x, task("5.1"), notebook="05_shared_tensors") for x in ("ada", "bob")
    ]
    title = pages.overview([*wrong, *right])["plots_title"]
    assert title == f"{NOTEBOOK} has the lowest mean, 50 % of its points"


def test_a_single_submission_is_not_drawn_as_if_it_were_many():
    seen = pages.overview([answers("ada", [grades.NOT_YET])])
    assert (seen["bars"], seen["plots"], seen["legend"]) == ([], [], [])


def test_a_row_without_points_says_so_across_its_exercises():
    broken = answers("max", [grades.NOT_YET] * 3, status=grades.FAILED)
    ada, last = pages.overview([answers("ada", [grades.RIGHT] * 3), broken])["rows"]
    assert last["cells"] == [{"score": "not graded", "marks": [], "width": 4}]
    assert (ada["look"], last["look"]) == (False, True)


@pytest.mark.parametrize(
    ("points", "most", "bins"),
    [
        ((0, 1, 1), 2, {"0": 1, "1": 2, "2": 0}),
        ((0.5, 2), 2, {"0": 1, "1": 0, "2": 1}),
        ((0, 13, 20), 20, {"0–2": 1, "12–14": 1, "18–20": 1}),
        ((0, 19), 19, {"0–2": 1, "18–19": 1}),
        ((3, 20), 18, {"3–5": 1, "18–20": 1}),
        ((0, 0), 0, {"0": 2}),
    ],
)
def test_each_number_of_points_is_in_one_bin(points, most, bins):
    found = pages._bins(summary.Points(NOTEBOOK, points, most))
    counts = {one["name"]: one["count"] for one in found}
    assert sum(counts.values()) == len(points)
    assert bins.items() <= counts.items()


def test_the_overview_links_to_every_learner(tmp_path):
    people = ["ada", "Ada", "../../etc", "李", "a" * 300]
    index = pages.write_pages([answers(x, [grades.RIGHT]) for x in people], tmp_path)
    links = set(re.findall(r'href="([^"#]+)"', index.read_text()))
    there = {path.name for path in tmp_path.iterdir()}
    assert links == there - {"index.html"}
    assert len(links) == len(people)


def test_further_files_of_a_learner_are_rows_of_their_own():
    both = [answers("ada", [grades.RIGHT]), answers("ada", [grades.NOT_YET])]
    rows = pages.overview(both)["rows"]
    assert [one["cells"][0]["score"] for one in rows] == ["2 of 2", "0 of 2"]


def test_a_learner_without_a_known_notebook_is_in_the_overview(tmp_path):
    lost = grade("max", status=grades.REFUSED, notebook="", message="no notebook in it")
    seen = pages.overview([lost])
    assert seen["title"] == "1 submission, none could be graded"
    assert "1 refused" in seen["facts"]
    assert [one["learner"] for one in seen["rows"]] == ["max"]
    index = plain(pages.write_pages([lost], tmp_path).read_text())
    assert "look at 1 max , unknown notebook: refused no notebook in it" in index


def test_pages_of_nobody_are_removed_and_files_of_others_stay(tmp_path):
    pages.write_pages([failed("ada"), failed("bob")], tmp_path)
    foreign = tmp_path / "notes-0123456789ab.html"
    foreign.write_text("<!doctype html>")
    renamed = (tmp_path / files.page_name("ada")).rename(tmp_path / "ada.html")
    pages.write_pages([failed("cleo")], tmp_path)
    mine = {tmp_path / files.page_name("cleo"), tmp_path / "index.html"}
    assert set(tmp_path.iterdir()) == {foreign, renamed, *mine}


def test_an_index_of_somebody_else_is_kept(tmp_path):
    (tmp_path / "index.html").write_text("<h1>My site</h1>")
    with pytest.raises(UsageError, match="kept. Name another folder"):
        pages.write_pages([failed()], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "<h1>My site</h1>"


def test_a_link_in_the_place_of_the_index_is_kept(tmp_path):
    pages.write_pages([failed()], tmp_path / "old")
    (tmp_path / "index.html").symlink_to(tmp_path / "old" / "index.html")
    with pytest.raises(UsageError, match="kept. Name another folder"):
        pages.write_pages([failed()], tmp_path)


def test_three_hundred_submissions_are_shown_and_written(tmp_path):
    found = [answers(f"learner {n}", [grades.RIGHT] * 7) for n in range(300)]
    assert shown(*found).count(" 14 of 14 ") == 300
    pages.write_pages(found, tmp_path)
    assert len(list(tmp_path.iterdir())) == 300 + 1
