"""What a learner has done outlives the kernel, other notebooks and a broken file."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import course_lib as cl
from course_lib.errors import UsageError
from course_lib.exercises import progress
from course_lib.exercises.checking import NotYet, exercises
from tests.commands import Python
from tests.kernels import Kernel, error, shown
from tests.leftovers import becomes

RIGHT = """
def shard_indices(num_samples, rank, world_size):
    length = -(-num_samples // world_size) * world_size
    return [i % num_samples for i in range(rank, length, world_size)]
"""
STUB = (
    "def shard_indices(num_samples, rank, world_size):\n    raise NotImplementedError"
)
COUNT = len(exercises())


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """A progress file of this test's own."""
    path = tmp_path / "progress.jsonl"
    monkeypatch.setenv("COURSE_LIB_PROGRESS", str(path))
    return path


def python(code):
    """Run code in another process, as after a restart of the kernel; what it prints."""
    code = f"import course_lib as cl\n{code}"
    process = Python(code, cwd=Path.cwd(), env=dict(os.environ))
    out, err = process.communicate(120)
    assert process.poll() == 0, err
    return out


def row(exercise):
    return next(row for row in cl.summary().rows if row[1] == exercise)


def answer(source):
    space = {}
    exec(source, space)
    return space["shard_indices"]


def test_what_is_right_stays_right_after_a_restart():
    assert "✓ 4.1 right" in python(f'{RIGHT}\nprint(cl.check("4.1", shard_indices))')
    assert f"1 of {COUNT} exercises right" in python("print(cl.summary())")
    assert row("4.1")[0] == "✓"


def test_two_writers_at_once_lose_nothing(kept):
    code = """
from course_lib.exercises import progress
for _ in range(500):
    progress.note("4.1", {!r})"""
    with ThreadPoolExecutor() as pool:
        list(pool.map(python, [code.format("right"), code.format("not yet")]))
    found = progress.states()["4.1"]
    assert (found.count("right"), found.count("not yet")) == (500, 500)


@pytest.mark.parametrize(
    "damage",
    [b'{"exercise": "4.1", "sta', b"\xff\xfe\n", b"[1]\n", b"null\n", b"\n"]
    + [b'{"exercise": ["4.1"], "state": "right"}\n', b"[" * 200_000],
    ids=["cut", "no text", "a list", "null", "empty", "no name", "deep"],
)
def test_a_damaged_line_is_passed_over(kept, damage):
    progress.note("4.1", "not yet")
    kept.write_bytes(kept.read_bytes() + damage + b"\n")
    progress.note("4.1", "right")
    assert progress.states()["4.1"] == ["not yet", "right"]


def test_a_line_after_one_that_was_cut_short_is_kept(kept):
    kept.write_bytes(b'{"exercise": "4.1", "sta')
    progress.note("4.1", "right")
    assert progress.states()["4.1"] == ["right"]


def test_a_summary_reads_the_file_once(monkeypatch):
    reads, states = [], progress.states
    monkeypatch.setattr(progress, "states", lambda: reads.append(1) or states())
    cl.summary()
    assert reads == [1]


@pytest.fixture
def no_memory(monkeypatch):
    monkeypatch.setattr(progress, "_unkept", [])


def test_a_check_says_when_it_cannot_be_kept(monkeypatch, tmp_path, no_memory):
    monkeypatch.setenv("COURSE_LIB_PROGRESS", str(tmp_path / "missing" / "progress"))
    said = repr(cl.check("4.1", answer(RIGHT)))
    assert "✓ 4.1 right" in said
    assert "this will not outlive the kernel: No such file or directory" in said
    assert row("4.1")[0] == "✓"


def test_a_notebook_whose_folder_was_deleted_keeps_progress_in_memory(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"""
import importlib, os
from course_lib.exercises import progress
del os.environ["COURSE_LIB_PROGRESS"]
os.chdir({str(folder)!r})
os.rmdir({str(folder)!r})
importlib.reload(progress)
print(progress.note("4.1", "right"), progress.states())"""
    said = "No such file or directory (.progress.jsonl) {'4.1': ['right']}\n"
    assert python(code) == said


def test_a_full_disk_is_named(monkeypatch, no_memory):
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "/dev/full")
    assert "No space left on device" in progress.note("4.1", "right")


def test_hints_count_on_and_stay_at_the_last():
    count = len(exercises()["4.1"].hints)
    heads = [cl.hint("4.1").head for _ in range(count + 2)]
    numbers = [*range(1, count + 1), count, count]
    assert heads == [f"4.1, hint {number} of {count}" for number in numbers]
    assert python('print(cl.hint("4.1"))').startswith(f"4.1, hint {count} of")
    assert f"{count} hints" in row("4.1")[3]


def test_the_last_hint_says_that_it_is_the_last():
    *earlier, last, again = [repr(cl.hint("4.1")) for _ in range(4)]
    end = "That was the last one; the answer is in solutions/."
    assert all(said.endswith('cl.hint("4.1") again says more.') for said in earlier)
    assert last.endswith(end)
    assert again == last
    assert cl.hint("4.1", 3)._repr_markdown_().endswith(end)


def test_a_summary_says_that_the_last_check_was_not_right_any_more():
    cl.check("4.1", answer(RIGHT))
    assert row("4.1")[3] == "right"
    with pytest.raises(NotYet):
        cl.check("4.1", lambda num_samples, rank, world_size: [])
    assert row("4.1")[0] == "✓"
    assert row("4.1")[3] == "right, but not at the last check"


def test_a_summary_counts_what_is_right_and_the_minutes_of_the_others():
    minutes = sum(row[-1] for row in cl.summary().rows)
    assert f"0 of {COUNT} exercises right, about {minutes} minutes" in repr(
        cl.summary()
    )
    cl.check("4.1", answer(RIGHT))
    assert f"1 of {COUNT} exercises right, about {minutes - 10} min" in repr(
        cl.summary()
    )


@pytest.fixture
def in_notebook(monkeypatch):
    """Be asked from a notebook of this name, as JupyterLab tells it."""
    return lambda name: monkeypatch.setenv("JPY_SESSION_NAME", f"course/{name}")


def stages(summary):
    return list(dict.fromkeys(row[1].partition(".")[0] for row in summary.rows))


def test_a_summary_begins_with_the_stage_of_its_notebook(in_notebook):
    in_notebook("exercises/04_distributed_data_parallel.ipynb")
    assert stages(cl.summary())[:3] == ["4", *stages(cl.summary())[1:3]]
    in_notebook("notebooks/06b_larger_batches.ipynb")
    assert stages(cl.summary())[0] == "6"


def test_elsewhere_it_begins_with_the_stage_that_was_checked_last(in_notebook):
    progress.note("5.1", "not yet")
    progress.note("2.1", "right")
    progress.note("5.2", "right")
    in_notebook("untitled.ipynb")
    assert stages(cl.summary())[0] == "5"


@pytest.mark.parametrize(
    ("done", "following"),
    [([], "4.1"), (["4.1"], "4.2"), (["4.2"], "4.1"), (["4."], "5.1")]
    + [(["4.", "5.", "6.", "7.", "8.", "9."], "0.1"), ([""], "")],
    ids=["none", "first", "second", "stage", "all behind", "all"],
)
def test_a_summary_says_what_is_next(in_notebook, done, following):
    in_notebook("04_distributed_data_parallel.ipynb")
    for exercise in exercises():
        if exercise.startswith(tuple(done)):
            progress.note(exercise, "right")
    assert cl.summary().next == following
    end = f"Next: {following}" if following else "All done."
    assert end in repr(cl.summary()).splitlines()


def test_next_is_a_link_to_the_heading_of_its_exercise(in_notebook, monkeypatch):
    monkeypatch.delenv("COURSE_LIB_PROGRESS")
    root = Path(__file__).parents[1]
    monkeypatch.setattr(progress, "_HOME", root / "exercises")
    monkeypatch.setattr(progress, "_stored", list)
    monkeypatch.chdir(root / "notebooks")
    in_notebook("04_distributed_data_parallel.ipynb")
    place = "../exercises/04_distributed_data_parallel.ipynb"
    heading = "#4.1-Shard-indices-by-hand-(about-10-minutes)"
    assert f'Next: <a href="{place}{heading}">4.1 Shard' in cl.summary()._repr_html_()
    notebook = (root / "notebooks" / place).read_text(encoding="utf-8")
    assert f"## {heading[1:].replace('-', ' ')}" in notebook


def test_a_summary_counts_rows_of_a_newer_course_and_leaves_them(kept):
    text = '{"v": 9, "exercise": "4.1", "state": {"score": 1}}\n'
    kept.write_text(text)
    assert "1 row of progress.jsonl came from a newer version" in repr(cl.summary())
    assert kept.read_text() == text


def test_a_summary_has_a_bar_that_says_its_numbers_in_words(in_notebook):
    in_notebook("04_distributed_data_parallel.ipynb")
    progress.note("4.1", "right")
    bar = '<progress max="16" value="1" aria-label="Stage 04"></progress> 1 of 16'
    assert bar in cl.summary()._repr_html_()


def test_a_later_mistake_does_not_take_what_was_right():
    cl.check("4.1", answer(RIGHT))
    with pytest.raises(Exception, match="not yet"):
        cl.check("4.1", lambda num_samples, rank, world_size: [])
    assert row("4.1")[0] == "✓"


def test_a_stub_counts_as_not_started():
    with pytest.raises(Exception, match="○ 4.1 not started"):
        cl.check("4.1", answer(STUB))
    assert row("4.1")[:1] + row("4.1")[3:4] == ("○", "not started")


def test_everything_right_leaves_no_minutes():
    for exercise in [row[1] for row in cl.summary().rows]:
        progress.note(exercise, "right")
    assert cl.summary().title == f"{COUNT} of {COUNT} exercises right"


@pytest.mark.parametrize(
    "exercise, said",
    [("9.9", "there is no exercise '9.9': 0.1"), (4.1, "in quotes")]
    + [(["4.1"], "in quotes"), (answer(STUB), "in quotes"), ("", "an exercise: 0.1")],
)
@pytest.mark.parametrize("call", [cl.hint, lambda one: cl.check(one, answer(STUB))])
def test_an_unknown_exercise_is_refused(call, exercise, said):
    with pytest.raises(UsageError, match=said):
        call(exercise)


@pytest.mark.parametrize("call", [cl.hint, cl.check])
def test_a_call_without_an_exercise_names_them_all(call):
    with pytest.raises(UsageError, match="name an exercise: 0.1, 1.1"):
        call()


def test_a_check_without_an_answer_says_how_to_give_it():
    with pytest.raises(UsageError, match=r'as in cl.check\("4.1", answer\)'):
        cl.check("4.1")


def test_an_answer_that_was_called_already_is_refused():
    with pytest.raises(UsageError, match="without brackets after it"):
        cl.check("4.1", answer(RIGHT)(10, 0, 4))


@pytest.mark.parametrize("number", [0, 9, -1, "1"])
def test_a_hint_that_is_not_there_is_refused(number):
    with pytest.raises(UsageError, match="has hints 1 to 3"):
        cl.hint("4.1", number)


def test_a_hint_by_number_counts_no_step():
    assert cl.hint("4.1", 2).head == "4.1, hint 2 of 3"
    assert progress.states() == {}


# while a check runs


ENDLESS = """
def shard_indices(num_samples, rank, world_size):
    if rank == 0:
        open({began!r}, "w").close()
    while True:
        pass
"""
SLOW_TO_START = """
import time
from course_lib.exercises import attempt
run = attempt.launcher.run_request
attempt.launcher.run_request = lambda *_, **__: time.sleep(60)
"""
LINE = "4.1: checking …, each run stops after 20 s"


@pytest.fixture(scope="module")
def kernel():
    opened = Kernel()
    opened.run("import course_lib as cl; cl.summary()")
    yield opened
    opened.close()


def is_waiting(message):
    return message["content"].get("data", {}).get("text/plain") == LINE


def test_a_check_says_at_once_that_it_runs_and_leaves_nothing_of_it(kernel):
    messages = kernel.run(f'{RIGHT}\ncl.check("4.1", shard_indices)')
    (line,) = [message for message in messages if is_waiting(message)]
    place = line["content"]["transient"]["display_id"]
    same = [
        message["content"]["data"]
        for message in messages
        if message["content"].get("transient", {}).get("display_id") == place
    ]
    *clock, last = same[1:]  # a slow machine may have seconds to tell in between
    assert all("; this one runs " in one["text/plain"] for one in clock)
    assert last == {}
    assert "✓ 4.1 right" in shown(messages)


def interrupted(kernel, cell, when=lambda: True):
    """What a check says that is interrupted `when` it runs and has said so."""
    message_id = kernel.send(cell)
    before = kernel.finish(message_id, until=is_waiting)
    assert becomes(when)
    kernel.manager.interrupt_kernel()
    messages = before + kernel.finish(message_id)
    assert LINE not in shown(messages)
    return error(messages)


def test_an_interrupt_before_the_ranks_run_is_told_in_one_line(kernel):
    cell = f'{SLOW_TO_START}\n{RIGHT}\ncl.check("4.1", shard_indices)'
    said = interrupted(kernel, cell)
    assert said == "LaunchInterrupted: 4.1: the check was interrupted"
    kernel.run("attempt.launcher.run_request = run")


def test_an_interrupt_while_the_ranks_run_tells_where_they_were(kernel, tmp_path):
    began = tmp_path / "began"
    cell = ENDLESS.format(began=str(began)) + 'cl.check("4.1", shard_indices)'
    said = interrupted(kernel, cell, began.exists)
    assert said.startswith("LaunchInterrupted: shard_indices on ")
    assert "rank 0 was in cell In[" in said
    assert "course_lib/" not in said
