"""A submission may do what it likes: it loses the task that does it, and no more."""

import errno

import pytest

import course_lib
from course_lib.grading import grader as grader_module
from course_lib.grading import grades, jail
from course_lib.grading.assignment import load
from course_lib.grading.grader import Grader, Options
from course_lib.grading.limits import Limits
from course_lib.grading.warm import Template
from tests import grading
from tests.leftovers import Leftovers, becomes

SMALL = Limits(cell=2, total=60, memory=600 * 10**6, processes=12, file=50 * 10**6)
PATIENT = Limits(cell=30)
needs_sandbox = pytest.mark.skipif(bool(jail.missing()), reason=jail.missing())
pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def graders(tmp_path_factory):
    """Graders for the small notebook by their options; nothing may be left of them."""
    left, made, template = Leftovers(), {}, Template()
    exercises = load(grading.release(tmp_path_factory.mktemp("small") / "exercises"))

    def grader(*, limits=SMALL, sandbox=True, canary=False):
        options = Options(limits=limits, sandbox=sandbox, canary=canary)
        if options not in made:
            made[options] = Grader(exercises, options, template=template)
        return made[options]

    yield grader
    for one in made.values():
        one.close()
    template.close()
    assert becomes(lambda: not left.found(), seconds=10), left.found()


@pytest.fixture(params=[pytest.param(True, marks=needs_sandbox), False])
def sandbox(request):
    """With and without a sandbox."""
    return request.param


@pytest.fixture
def grader(graders, sandbox):
    return graders(sandbox=sandbox)


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
time.sleep(9)
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
    "os.kill(os.getppid(), 9); time.sleep(1); os._exit(1)": "ended its kernel",
    "quit()": "ended its kernel",
    BOMB: "processes, 12 are allowed",
    HOG: "0.6 GB are allowed",
}


@pytest.mark.parametrize("line", ENDINGS)
def test_a_cell_that_ends_its_kernel_costs_its_own_task(grader, line):
    grade = grader.grade(grading.handed(before=line))
    assert outcomes(grade) == [grades.CRASHED, grades.RIGHT, grades.RIGHT], grade
    assert grade.points == 8
    assert ENDINGS[line] in grade.tasks[0].message


@pytest.mark.parametrize("line", ["while True: pass", IGNORES, "sys.modules.clear()"])
def test_a_cell_without_end_costs_its_own_task(grader, line):
    grade = grader.grade(grading.handed(before=line))
    assert outcomes(grade) == [grades.LATE, grades.RIGHT, grades.RIGHT], grade
    assert "did not end in its time" in grade.tasks[0].message


def test_an_answer_without_end_costs_its_own_task(grader):
    grade = grader.grade(grading.handed(square="def square(x):\n    while True: pass"))
    assert outcomes(grade) == [grades.LATE, grades.RIGHT, grades.RIGHT], grade


def test_a_check_in_which_the_kernel_ends_costs_its_own_task(grader):
    grade = grader.grade(grading.handed(square="def square(x):\n    os._exit(0)"))
    assert outcomes(grade) == [grades.CRASHED, grades.RIGHT, grades.RIGHT], grade


def test_three_cells_that_end_the_kernel_cost_three_tasks(grader):
    end = "os._exit(0)"
    grade = grader.grade(grading.handed(square=end, total=end, label=end))
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


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_done_beside_right_answers_costs_nothing(graders, sandbox, name):
    grader = graders(sandbox=sandbox, limits=PATIENT)
    grade = grader.grade(grading.handed(before=HARMLESS[name]))
    assert grade.points == 10, grade


def test_output_that_was_left_out_is_noted(graders):
    grader = graders(sandbox=not jail.missing(), limits=PATIENT)
    grade = grader.grade(grading.handed(before=HARMLESS["much output"]))
    assert "square: 200.0 MB of what it shows were left out" in grade.repairs


def test_a_file_larger_than_the_limit_is_refused(grader):
    write = "open('big', 'wb').write(bytes(60_000_000))"
    grade = grader.grade(grading.handed(before=write))
    assert outcomes(grade) == [grades.NOT_YET, grades.RIGHT, grades.RIGHT], grade
    assert "OSError" in grade.tasks[0].message


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


WRONG = "def square(x):\n    return 0"
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
    job = grader._job

    def blocked(folder, *args):
        made = job(folder, *args)
        (folder / "room/home").touch()
        return made

    monkeypatch.setattr(grader, "_job", blocked)
    grade = grader.grade(grading.handed())
    assert grade.status == grades.FAILED and grade.tasks == ()
    assert "the kernel cannot start" in grade.message


def test_a_template_that_was_killed_is_started_again(tmp_path):
    exercises = load(grading.release(tmp_path / "exercises"))
    with Grader(exercises, Options(sandbox=False)) as grader:
        assert grader.grade(grading.handed()).points == 10
        grader.template.process.kill()
        grader.template.process.wait()
        assert grader.grade(grading.handed()).points == 10
