"""A submission may do what it likes: it loses the task that does it, and no more."""

import collections
import errno
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import zmq

import course_lib
from course_lib.grading import grades, scoring
from course_lib.grading.notebook.assignment import load_assignments
from course_lib.grading.run import grader as grader_module
from course_lib.grading.run.grader import Grader, Options
from course_lib.grading.run.limits import Limits, excess
from course_lib.grading.run.nbval_kernel import Supervised
from course_lib.grading.run.sandbox import _needed, _options
from course_lib.grading.run.template import Template
from tests import forked, grading, lacks
from tests.leftovers import Leftovers, becomes

SMALL = Limits(cell=30, total=90, memory=600 * 10**6, processes=12, file=50 * 10**6)
BRIEF = replace(SMALL, cell=2)  # of what does not end on any machine
PATIENT = Limits(cell=30)
needs_sandbox = lacks.needs_sandbox()
pytestmark = pytest.mark.faults


SECRET = {"MY_SECRET_TOKEN": "hush"}  # a variable of who grades


@pytest.fixture(scope="module")
def template():
    """What all graders here fork from; nothing may be left of them."""
    left = Leftovers()
    with mock.patch.dict(os.environ, SECRET), forked.starting():
        made = Template()
    yield made
    made.close()
    assert becomes(lambda: not left.found()), left.found()


@pytest.fixture(scope="module")
def graders(tmp_path_factory, template):
    """Graders for the small notebook by their options."""
    made = {}
    folder = grading.release(tmp_path_factory.mktemp("small") / "exercises")
    exercises = load_assignments(folder)

    def grader(*, limits=SMALL, sandbox=True, canary=False):
        options = Options(limits=limits, sandbox=sandbox, canary=canary)
        if options not in made:
            made[options] = Grader(exercises, options, template=template)
        return made[options]

    yield grader
    for one in made.values():
        one.close()


WRONG = "def square(x):\n    return 0"


def both(names, plain):
    """Each of `names` in the sandbox, those of `plain` also without one."""
    sandboxed = [pytest.param(name, True, marks=needs_sandbox) for name in names]
    return [*sandboxed, *(pytest.param(name, False) for name in plain)]


def outcomes(grade):
    return [task.outcome for task in grade.tasks]


IGNORES = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    try:
        time.sleep(9)
    except BaseException:
        pass
"""
BOMB = """
for _ in range(20):
    if os.fork() == 0:
        time.sleep(99)
time.sleep(99)
"""
HOG = """
kept = []
while True:
    kept.append(bytearray(os.urandom(1_000_000) * 10))
"""
ENDINGS = {
    "os._exit(0)": "ended its kernel",
    "os._exit(3)": "ended its kernel",
    "import ctypes; ctypes.string_at(0)": "ended its kernel",
    "os.kill(os.getpid(), 9)": "ended its kernel",
    "os.kill(os.getppid(), 9); time.sleep(99); os._exit(1)": "ended its kernel",
    "quit()": "ended its kernel",
    BOMB: "processes, 12 are allowed",
    HOG: "0.6 GB are allowed",
}


@pytest.mark.parametrize("line, sandbox", both(ENDINGS, ["os._exit(0)", BOMB, HOG]))
def test_a_cell_that_ends_its_kernel_costs_its_own_task(graders, line, sandbox):
    grader = graders(sandbox=sandbox)
    grade = grader.grade(grading.handed(before=line))
    assert outcomes(grade) == [grades.CRASHED, grades.RIGHT, grades.RIGHT], grade
    assert grade.points == 8
    assert ENDINGS[line] in grade.tasks[0].message


ENDLESS = ["while True: pass", IGNORES, "sys.modules.clear()"]


@pytest.mark.parametrize("line, sandbox", both(ENDLESS, [IGNORES]))
def test_a_cell_without_end_costs_its_own_task(graders, line, sandbox):
    grader = graders(limits=BRIEF, sandbox=sandbox)
    grade = grader.grade(grading.handed(before=line))
    assert outcomes(grade) == [grades.LATE, grades.RIGHT, grades.RIGHT], grade
    assert "did not end in its time" in grade.tasks[0].message


@needs_sandbox
def test_an_answer_without_end_costs_its_own_task(graders):
    grade = graders(limits=BRIEF).grade(
        grading.handed(square="def square(x):\n    while True: pass")
    )
    assert outcomes(grade) == [grades.LATE, grades.RIGHT, grades.RIGHT], grade


@needs_sandbox
def test_a_check_in_which_the_kernel_ends_costs_its_own_task(graders):
    grade = graders().grade(grading.handed(square="def square(x):\n    os._exit(0)"))
    assert outcomes(grade) == [grades.CRASHED, grades.RIGHT, grades.RIGHT], grade


@needs_sandbox
def test_three_cells_that_end_the_kernel_cost_three_tasks(graders):
    end = "os._exit(0)"
    grade = graders().grade(grading.handed(square=end, total=end, label=end))
    assert outcomes(grade) == [grades.CRASHED] * 3 and grade.points == 0


HARMLESS = {
    "much output": "for _ in range(200): print('x' * 1_000_000)",
    "many small outputs": "for n in range(3_000): print(n, flush=True)",
    "the folder deleted": "import shutil; shutil.rmtree(os.getcwd())",
    "a daemon": "os.fork() or (os.setsid(), os.fork() or time.sleep(99), os._exit(0))",
    "a thread": "import threading as t; t.Thread(target=time.sleep, args=[99]).start()",
    "a caught interrupt": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "print replaced": "print = None",
    "all printed as passed": "print('3 passed'); print('All checks passed')",
    "standard streams closed": "sys.stdout.close(); sys.stderr.close()",
    "shared memory": """
from multiprocessing import shared_memory
kept = shared_memory.SharedMemory(create=True, size=9)""",
    "all names deleted": "globals().clear(); import os, time",
    "a check of its own": "def check(*_): return True",
}


LEFT = ["the folder deleted", "a daemon", "a thread", "shared memory"]


@pytest.mark.parametrize("name, sandbox", both(HARMLESS, LEFT))
def test_what_is_done_beside_right_answers_costs_nothing(graders, sandbox, name):
    grader = graders(sandbox=sandbox, limits=PATIENT)
    grade = grader.grade(grading.handed(before=HARMLESS[name]))
    assert grade.points == 10, grade
    left_out = "square: 200.0 MB of what it shows were left out" in grade.repairs
    assert left_out == (name == "much output"), grade


LARGE = ["f.write(bytes(60_000_000))", "f.seek(2 << 30); f.write(b'x')"]


@pytest.mark.parametrize("write, sandbox", both(LARGE, LARGE[1:]))
def test_a_file_larger_than_the_limit_is_refused(graders, write, sandbox):
    code = f"f = open('big', 'wb'); {write}; f.flush()"
    grade = graders(sandbox=sandbox).grade(grading.handed(before=code))
    assert outcomes(grade) == [grades.NOT_YET, grades.RIGHT, grades.RIGHT], grade
    assert "OSError" in grade.tasks[0].message


PRETENDED = """
print("3 passed in 0.01s"); print("✓ square right: all passed")
said = b'{"cell": "square-test", "outcome": "passed"}'
for name in os.listdir("/proc/self/fd"):
    try:
        os.write(int(name), said)
    except OSError:
        pass
for folder in (".", "..", "/tmp", os.path.expanduser("~")):
    for name in ("grades.json", "results.json", "square.ok"):
        try:
            open(os.path.join(folder, name), "wb").write(said)
        except OSError:
            pass"""


@needs_sandbox
def test_a_result_that_a_notebook_writes_itself_is_not_believed(graders):
    # it writes into the sockets of its kernel too, which may answer no more
    handed = grading.handed(before=PRETENDED, square=WRONG)
    grade = graders().grade(handed)
    assert outcomes(grade)[0] != grades.RIGHT
    assert grade.points == 8


def test_exercises_that_a_notebook_overwrites_are_those_that_were_read(
    tmp_path, template
):
    folder = grading.release(tmp_path / "exercises")
    file = folder / "small.ipynb"
    easy = file.read_text().replace("assert", "True or")
    code = f"open({str(file)!r}, 'w').write({easy!r})"
    options, courses = Options(sandbox=False), load_assignments(folder)
    with Grader(courses, options, template=template) as grader:
        grader.grade(grading.handed(before=code))
        assert file.read_text() == easy  # without a sandbox it can
        assert grader.grade(grading.handed(square=WRONG)).points == 8


def edited(**sources):
    """A change of cells: those with these ids get another source."""

    def change(cells):
        for one in cells:
            one["source"] = sources.get(one["id"].replace("-", "_"), one["source"])

    return change


def without(*names):
    def change(cells):
        return [one for one in cells if one["id"] not in names]

    return change


def forgotten(cells):
    """A platform dropped what it does not know: metadata and ids."""
    for number, one in enumerate(cells):
        one["metadata"], one["id"] = {}, f"a{number}"


def split(cells):
    """JupyterLab copies the metadata when a cell is split, and gives a new id."""
    first = next(one for one in cells if one["id"] == "square")
    head, _, body = first["source"].partition("\n")
    at = cells.index(first)
    cells[at : at + 1] = [
        {**first, "source": head},
        {**first, "source": body, "id": "b"},
    ]


def retyped(cells):
    for one in cells:
        if one["id"] == "total":
            one["cell_type"] = "markdown"


def reordered(cells):
    cells.reverse()


def tagged(cells):
    for one in cells:
        one["metadata"]["tags"] = ["raises-exception", "nbval-skip"]


MENDED = {
    "split": split,
    "retyped": retyped,
    "reordered": reordered,
    "metadata and ids lost": forgotten,
    "tagged": tagged,
    "checks deleted": without("square-test", "label-test"),
    "the set-up deleted": without("setup"),
    "checks emptied": edited(square_test="", label_test="pass"),
}


@needs_sandbox
@pytest.mark.parametrize("name", MENDED)
def test_damaged_cells_cost_nothing(graders, name):
    grade = graders().grade(grading.handed(change=MENDED[name]))
    assert grade.points == 10, grade
    assert grade.repairs or name == "tagged"


CHEATS = {
    "the check deleted": without("square-test"),
    "the check emptied": edited(square_test="pass"),
    "the check in a comment": edited(square_test="# NBVAL_SKIP\n" + "pass"),
    "the check skipped": tagged,
    "the check accepts it": edited(square_test="assert square(3) == 0"),
}


@needs_sandbox
@pytest.mark.parametrize("name", CHEATS)
def test_a_changed_check_does_not_save_a_wrong_answer(graders, name):
    grade = graders().grade(grading.handed(square=WRONG, change=CHEATS[name]))
    assert outcomes(grade) == [grades.NOT_YET, grades.RIGHT, grades.RIGHT], grade
    assert grade.tasks[0].message == "AssertionError: 3 squared is 9, found 0"


@needs_sandbox
def test_a_skip_comment_in_an_answer_does_not_skip_it(graders):
    grade = graders().grade(grading.handed(before="# NBVAL_SKIP"))
    assert grade.points == 10


@needs_sandbox
def test_an_answer_that_is_missing_is_not_started(graders):
    grade = graders().grade(grading.handed(change=without("square")))
    assert outcomes(grade) == [grades.NOT_STARTED, grades.RIGHT, grades.RIGHT]
    assert grade.points == 8 and grade.repairs


TAMPERED = {
    "the kernel runs nothing": """
shell = get_ipython()
async def run_cell_async(source, *args, **kwargs):
    from IPython.core.interactiveshell import ExecutionResult
    return ExecutionResult(None)
shell.run_cell_async = run_cell_async""",
    "errors are not shown": """
shell = get_ipython()
shell.showtraceback = shell._showtraceback = lambda *args, **kwargs: None
shell.run_code_ = shell.run_code
async def run_code(*args, **kwargs):
    await shell.run_code_(*args, **kwargs)
    return False
shell.run_code = run_code""",
    "asserts are stripped": """
import ast
class Strip(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
get_ipython().ast_transformers.append(Strip())""",
    "every check is replaced": """
get_ipython().input_transformers_cleanup.append(
    lambda lines: ["pass"] if lines[0].startswith("assert") else lines)""",
}


@needs_sandbox
@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_kernel_is_flagged_by_the_canaries(graders, name):
    wrong = {
        answer: source.replace("return", "return 0,")
        for answer, source in grading.ANSWERS.items()
    }
    handed = grading.handed(before=TAMPERED[name], **wrong)
    grade = graders(canary=True).grade(handed)
    assert grade.status == grades.FLAGGED, grade
    assert outcomes(grade) == [grades.SUSPECT] * 3 and grade.points == 0
    assert "2 points are withheld" in grade.tasks[0].message


@needs_sandbox
def test_an_honest_notebook_is_not_flagged_by_the_canaries(graders):
    grade = graders(canary=True).grade(grading.handed())
    assert grade.status == grades.GRADED and grade.points == 10


@needs_sandbox
def test_a_kernel_that_ends_before_its_canaries_is_flagged(graders):
    stop = """
def label(n):
    return f'rank {n}'
get_ipython().events.register("pre_run_cell", lambda info: (
    "raise NotImplementedError" in info.raw_cell and os._exit(0)))"""
    grade = graders(canary=True).grade(grading.handed(label=stop))
    assert grade.status == grades.FLAGGED, grade


OUTSIDE = {
    "all processes killed": "os.kill(-1, 9)",
    "the first process killed": "os.kill(1, 9); time.sleep(1)",
}


@needs_sandbox
@pytest.mark.parametrize("name", OUTSIDE)
def test_signals_do_not_leave_the_sandbox(graders, name):
    grade = graders().grade(grading.handed(before=OUTSIDE[name]))
    assert grade.points in (8, 10), grade
    assert outcomes(grade)[1:] == [grades.RIGHT, grades.RIGHT]


def seen(graders, code):
    """What an expression gives inside of the sandbox."""
    square = f"def square(x):\n    raise ValueError(repr({code}))"
    grade = graders(limits=PATIENT).grade(grading.handed(square=square))
    return grade.tasks[0].message.removeprefix("ValueError: ")


@needs_sandbox
def test_the_sandbox_shows_no_process_of_the_machine(graders):
    found = seen(graders, "sum(name.isdigit() for name in os.listdir('/proc'))")
    assert int(found) < 8


def test_folders_that_can_be_written_begin_empty_though_python_reads_there(monkeypatch):
    monkeypatch.syspath_prepend("/tmp")
    _needed.cache_clear()
    options = _options(None, SMALL, ())
    _needed.cache_clear()
    assert options[options.index("/tmp") - 1] == "--tmpfs"


@needs_sandbox
def test_the_sandbox_has_no_network(graders):
    found = seen(graders, "os.listdir('/sys/class/net')")
    connect = "__import__('socket').create_connection(('192.0.2.1', 80), timeout=1)"
    assert "Network is unreachable" in seen(graders, connect), found


@needs_sandbox
@pytest.mark.parametrize(
    "place", ["/etc/new", course_lib.__file__, "/usr/new", "/proc/sys/kernel/hostname"]
)
def test_the_sandbox_lets_nothing_of_the_machine_be_written(graders, place):
    code = f"os.write(os.open({place!r}, os.O_WRONLY | os.O_CREAT), b'')"
    found = seen(graders, code)
    assert "OSError" in found or "PermissionError" in found, found


@needs_sandbox
def test_a_sandboxed_notebook_has_no_privileges(graders):
    found = seen(graders, "open('/proc/self/status').read()")
    assert r"CapEff:\t0000000000000000\n" in found
    assert r"NoNewPrivs:\t1\n" in found


def test_a_file_that_others_left_in_the_temporary_folder_is_not_run(graders, template):
    above = template.folder.parent / "conftest.py"  # pytest runs those that it finds
    mark = above.with_name("was-run")
    above.write_text(f"open({str(mark)!r}, 'w').close()")
    try:
        assert graders(sandbox=False).grade(grading.handed()).points == 10
    finally:
        above.unlink()
    assert not mark.exists()


@needs_sandbox
def test_a_notebook_holds_no_file_of_the_grader(graders):
    named = "os.popen(f'ls -l /proc/{os.getpid()}/fd').read()"
    found = seen(graders, named)
    assert "/dev/null" in found and "notebook" not in found and "nbval" not in found


@needs_sandbox
def test_a_sandboxed_notebook_does_not_see_what_others_handed_in(graders, tmp_path):
    other = tmp_path / "other.ipynb"
    other.write_text("{}")
    assert "FileNotFoundError" in seen(graders, f"open({str(other)!r})")


def test_what_cannot_be_read_is_refused_with_the_reason(graders):
    grader = graders(sandbox=False)
    for data in (b"", b"{", b"[]", b'{"cells": 3}', b"\xff" * 99, b"[" * 100_000):
        grade = grader.grade(grading.Handed(data))
        assert grade.status == grades.REFUSED and grade.points == 0
        assert grade.message


def test_without_room_on_the_disk_the_grader_fails_and_not_the_learner(
    graders, monkeypatch
):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(grader_module.tempfile, "mkdtemp", full)
    grade = graders(sandbox=False).grade(grading.handed())
    assert grade.status == grades.FAILED and grade.tasks == ()
    assert "No space left on device" in grade.message


def test_a_kernel_that_cannot_start_is_no_fault_of_the_learner(graders, monkeypatch):
    # the kernel finds a file where its folder should be
    grader = graders(sandbox=False)
    write = grader._write

    def blocked(folder, *args, **limits):
        write(folder, *args, **limits)
        (folder / "room/home").touch()

    monkeypatch.setattr(grader, "_write", blocked)
    grade = grader.grade(grading.handed())
    assert grade.status == grades.FAILED and grade.tasks == ()
    assert "the kernel cannot start" in grade.message


def test_a_template_that_was_killed_is_started_again(tmp_path):
    exercises = load_assignments(grading.release(tmp_path / "exercises"))
    with Grader(exercises, Options(sandbox=False)) as grader:
        assert grader.grade(grading.handed()).points == 10
        grader.templates[-1].process.kill()
        grader.templates[-1].process.wait()
        assert grader.grade(grading.handed()).points == 10


IN_TWO_PARTS = """def square(x):
    from course_lib.exercises.checking import NotYet
    found = "\u2717 1.1 not yet: a rank raised E: 3\\nHint: none\\nMore help: none"
    raise NotYet(found, "", "Hint: Add it.", "More help: there.", hint="Add it.")"""


def test_what_a_check_says_comes_in_its_parts_and_no_text_is_taken_for_a_hint(graders):
    square = graders(sandbox=False).grade(grading.handed(square=IN_TWO_PARTS)).tasks[0]
    found = "✗ 1.1 not yet: a rank raised E: 3\nHint: none\nMore help: none"
    assert (square.outcome, square.hint) == (grades.NOT_YET, "Add it.")
    assert square.message == found


FORGED_PARTS = """
class NotYet(Exception):
    def _render_traceback_(self):
        return {parts}
raise NotYet("mine")"""


@pytest.mark.parametrize("parts", ["['a', 'b', 'c']", "[]"])
def test_parts_that_no_check_sends_are_left_out(graders, parts):
    square = f"def square(x):{FORGED_PARTS.format(parts=parts)}"
    square = square.replace("\n", "\n    ")
    task = graders(sandbox=False).grade(grading.handed(square=square)).tasks[0]
    assert task.outcome == grades.NOT_YET
    assert (task.message, task.hint) == ("NotYet: mine", "")


MORE_THAN_12 = [grading.cell(f"mine-{n}", "os._exit(0)") for n in range(13)]
BROKEN_MESSAGES = """
class Error(Exception): pass
Error.__name__ = Error.__qualname__ = "X" * 100_000
raise Error("y" * 100_000)"""
FORGED = """
session = get_ipython().kernel.session
parent = get_ipython().kernel.get_parent()
for content in ({"ename": {}, "evalue": 3}, {}, {"ename": "E", "evalue": "x" * 99_000},
                {"ename": "NotYet", "traceback": {}},
                {"ename": "NotYet", "traceback": [1, {}]}):
    session.send(get_ipython().kernel.iopub_socket, "error", content, parent=parent)
session.send(get_ipython().kernel.iopub_socket, "execute_result",
             {"data": [1], "metadata": {}, "execution_count": 1}, parent=parent)"""
DEEP = """
for _ in range(2000):
    os.mkdir("d"); os.chdir("d")"""


@needs_sandbox
@pytest.mark.parametrize("code", [BROKEN_MESSAGES, FORGED, DEEP])
def test_no_message_or_folder_of_a_notebook_breaks_the_grader(graders, code):
    grade = graders(limits=PATIENT).grade(grading.handed(before=code))
    assert grade.status == grades.GRADED, grade
    assert outcomes(grade)[1:] == [grades.RIGHT, grades.RIGHT]


def test_deep_folders_of_a_notebook_without_a_sandbox_are_removed(graders):
    grader = graders(sandbox=False)
    assert grader.grade(grading.handed(before=DEEP)).status == grades.GRADED
    assert list(grader.templates[-1].folder.iterdir()) == []


def test_an_error_of_the_grader_ends_no_run_of_all(graders, monkeypatch):
    monkeypatch.setattr(grader_module.merging, "merge_answers", lambda *_: 1 / 0)
    grade = graders(sandbox=False).grade(grading.handed())
    assert grade.status == grades.FAILED
    assert "ZeroDivisionError: division by zero" in grade.message


@needs_sandbox
def test_an_error_that_is_named_as_the_grader_names_its_own_is_the_learners(graders):
    own = "class CourseError(Exception): pass\nraise CourseError('mine')"
    grade = graders().grade(grading.handed(before=own))
    assert (grade.status, grade.points) == (grades.GRADED, 8)


FOREVER = "time.sleep(999)"


@needs_sandbox
def test_a_cell_of_ones_own_without_end_is_told_beside_full_points(graders):
    own = grading.cell("mine", FOREVER)
    handed = grading.handed(after=FOREVER, change=lambda cells: [*cells, own])
    grade = graders(limits=BRIEF).grade(handed)
    assert grade.points == 10
    assert grade.repairs == (
        "square did not end in 2 s: it was interrupted",
        "extra-1 did not end in 2 s: it was interrupted",
    )


@needs_sandbox
def test_a_cell_of_ones_own_that_ends_the_kernel_is_told_beside_full_points(graders):
    own = grading.cell("mine", "os._exit(0)")
    grade = graders().grade(grading.handed(change=lambda cells: [*cells, own]))
    assert grade.points == 10
    assert grade.repairs[0].startswith("extra-1 was left out: it ended its kernel")


@needs_sandbox
def test_a_name_from_further_down_gets_the_hint_to_run_all_cells(graders):
    below = grading.cell("mine", "def later(x): return x * x")
    late = "def square(x):\n    return later(x)"
    handed = grading.handed(square=late, change=lambda cells: [*cells, below])
    task = graders(limits=PATIENT).grade(handed).tasks[0]
    assert task.message == "NameError: name 'later' is not defined"
    assert "top to bottom" in task.hint and "Restart Kernel and Run All" in task.hint


@needs_sandbox
def test_an_error_of_the_syntax_is_shown_with_its_line(graders):
    wrong = "# two lines\ndef square(x)\n    return 0"
    task = graders(limits=PATIENT).grade(grading.handed(square=wrong)).tasks[0]
    said = "the cell of the answer fails: SyntaxError: expected ':' in line 2"
    assert task.message == f"{said}: def square(x)"


FLOOD = """
kernel = get_ipython().kernel
while True:
    busy = {"execution_state": "busy"}
    kernel.session.send(kernel.iopub_socket, "status", busy, kernel.get_parent())
"""


@needs_sandbox
def test_messages_without_end_do_not_outlast_the_time_of_a_cell(graders):
    grade = graders(limits=BRIEF).grade(grading.handed(before=FLOOD))
    assert outcomes(grade) == [grades.LATE, grades.RIGHT, grades.RIGHT], grade


def test_what_the_reader_of_a_kernel_was_sent_counts_as_memory():
    little = Limits(memory=1)
    assert excess(set(), little) == ""
    assert "GB of memory" in excess(set(), little, reader=os.getpid())


def test_of_a_message_only_what_is_read_is_kept():
    reader = Supervised.__new__(Supervised)
    reader.most, reader.shown, reader.dropped, reader.waiting = 99, 0, 0, []
    about = {"parent_header": {"msg_id": "1", "more": "x" * 99}, "buffers": [b"x" * 99]}
    reader._keep({"msg_type": "display_data", "content": {"data": {}}, **about})
    reader._keep(
        {"msg_type": "status", "content": {"execution_state": "idle"}, **about}
    )
    header = {"msg_id": "1"}
    assert reader.waiting == [
        {"msg_type": kind, "parent_header": header, "content": content}
        for kind, content in (
            ("display_data", {"data": {}}),
            ("status", {"execution_state": "idle"}),
        )
    ]


@pytest.mark.parametrize("limit, late", [(30, False), (10, True)])
def test_what_a_cell_has_shown_is_read_within_the_time_of_the_cell(limit, late):
    """20 messages that are dropped, each read in a second, after the reply."""
    now = [100.0]
    about = {"parent_header": {"msg_id": "1"}}
    much = {"msg_type": "stream", "content": {"text": "x" * 99}, **about}
    idle = {"msg_type": "status", "content": {"execution_state": "idle"}, **about}
    messages = [much] * 20 + [idle]

    def get_msg(timeout):
        now[0] += 1
        return messages.pop(0)

    reader = Supervised.__new__(Supervised)
    reader.most, reader.shown, reader.dropped = 99, 0, 0
    reader.waiting, reader.until, reader.replied = collections.deque(), 0.0, None
    reader.kc, reader.poller = mock.Mock(), mock.Mock()
    channels = reader.kc.iopub_channel, reader.kc.shell_channel
    reader.kc.iopub_channel.get_msg = get_msg
    reader.kc.shell_channel.get_msg.return_value = {"content": {}}
    with mock.patch("time.monotonic", lambda: now[0]):
        reader.poller.poll.return_value = [(channels[1].socket, zmq.POLLIN)]
        reader.get_message("shell", timeout=limit)
        reader.poller.poll.return_value = [(channels[0].socket, zmq.POLLIN)]
        with pytest.raises(queue.Empty) if late else nullcontext():
            found = reader.get_message("iopub", timeout=5)
            assert found["content"] == {"execution_state": "idle"}
    assert bool(messages) == late


@pytest.mark.parametrize(
    "said, outcome, points",
    [("✓ 1.1 right: yes", grades.RIGHT, 2), ("", grades.SUSPECT, 0)],
)
def test_a_check_that_passes_and_does_not_say_so_is_suspect(said, outcome, points):
    courses = load_assignments(Path(__file__).parents[1] / "exercises")
    course = next(one for one in courses if one.stage == "01")
    ran = scoring.Execution({"check-1-1": {"outcome": "passed", "text": said}})
    task = scoring.tasks(course, ran)[0]
    assert (task.id, task.outcome, task.points) == ("1.1", outcome, points)


@needs_sandbox
def test_too_many_cells_that_end_the_kernel_are_named_as_the_reason(graders):
    handed = grading.handed(change=lambda cells: cells[:1] + MORE_THAN_12 + cells[1:])
    grade = graders().grade(handed)
    assert "cells before it ended the kernel in 12 runs" in grade.tasks[0].message


@needs_sandbox
def test_a_breakpoint_in_a_rank_is_not_passed_over(graders):
    ask = """def square(x):
    import course_lib as cl
    cl.launch(lambda rank, world_size: breakpoint(), world_size=1)"""
    task = graders(limits=PATIENT).grade(grading.handed(square=ask)).tasks[0]
    assert task.outcome == grades.NOT_YET and "BdbQuit" in task.message, task


@needs_sandbox
def test_variables_of_who_grades_are_not_seen(graders, template):
    show = "def square(x):\n    raise ValueError(dict(os.environ))"
    grade = graders().grade(grading.handed(square=show))
    theirs = Path(f"/proc/{template.process.pid}/environ").read_text()
    assert "MY_SECRET_TOKEN=hush" in theirs
    assert "PATH" in grade.tasks[0].message and "hush" not in grade.tasks[0].message


@needs_sandbox
def test_a_sandbox_shows_no_hidden_folder_and_no_hidden_file(tmp_path, template):
    exercises = load_assignments(grading.release(tmp_path / "exercises"))
    home = Path(course_lib.__file__).parent  # the course is seen, but not this in it
    folder, file = str(home / "accelerators/vgpu"), str(home / "system/sockets.py")
    assert os.path.isdir(folder) and os.path.isfile(file)
    hidden = (folder, file, "/usr/share")
    with Grader(exercises, Options(hidden=hidden), template=template) as grader:
        look = f"{{p: os.path.isdir(p) and os.listdir(p) for p in {hidden}}}"
        size = f"os.path.getsize({file!r})"
        show = f"def square(x):\n    raise ValueError({look}, {size})"
        said = grader.grade(grading.handed(square=show)).tasks[0].message
    assert said.count("[]") == 2 and said.endswith(", 0)"), said


@needs_sandbox
@pytest.mark.parametrize("file", ["open(f'/dev/shm/{n}', 'wb', 0)", "nameless()"])
def test_what_a_notebook_writes_into_memory_counts_as_memory(graders, file):
    fill = f"""
kept, nameless = [], lambda: open(os.memfd_create("x"), "wb", 0)
for n in range(99):
    kept.append({file})
    kept[-1].write(bytes(40_000_000))
"""
    limits = Limits(cell=20, memory=900 * 10**6, file=2000 * 10**6)
    grade = graders(limits=limits).grade(grading.handed(before=fill))
    assert grade.points == 8 and "0.9 GB are allowed" in grade.tasks[0].message


@needs_sandbox
@pytest.mark.parametrize("place", ["/dev", "/run", "/var/tmp", "../sockets"])
def test_only_folders_with_a_limit_can_be_written(graders, place):
    found = seen(graders, f"open({place!r} + '/new', 'w')")
    assert "Read-only file system" in found


@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write there")
def test_a_notebook_graded_by_root_cannot_set_what_root_can(graders):
    found = seen(graders, "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)")
    assert "PermissionError" in found


UNSHARED = """
import subprocess
assert subprocess.run(["unshare", "-Ur", "true"]).returncode != 0
try:
    open("../sockets/new", "w")
except OSError:
    pass
else:
    raise SystemExit("it could be written")"""


@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="all these tests ran so: not root")
def test_who_is_not_root_has_a_sandbox_too(tmp_path):
    stranger = {"user": 12345, "group": 12345, "extra_groups": [], "cwd": "/"}
    try:
        subprocess.run([sys.executable, "-c", "import torch"], check=True, **stranger)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this Python is in a folder that only root may read")
    folder = tempfile.mkdtemp()  # below tmp_path others see nothing
    os.chmod(folder, 0o777)
    grading.release(Path(folder) / "exercises")
    (Path(folder) / "ada.ipynb").write_bytes(grading.handed(before=UNSHARED).read())
    options = (f"--exercises={folder}/exercises", f"--state={folder}/state")
    command = ["-m", "course_lib", "grade", f"{folder}/ada.ipynb", "--json=-"]
    root = str(Path(course_lib.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *command, "--sandbox", *options],
        env={"HOME": folder, "PATH": os.environ["PATH"], "PYTHONPATH": root},
        capture_output=True,
        **stranger,
    )
    shutil.rmtree(folder)
    [grade] = json.loads(done.stdout)["submissions"]
    assert grade["points"] == 10, grade
