"""Every check meets right answers and wrong ones; the pipe of the grader some of each.

Answers (`answers.py`) are checked in this process (`checking.py`): a check does to them
what it does in a notebook. That the notebook, nbval, the sandbox and the report pass on
what it says is proven with the solutions, the stubs and one wrong answer per exercise.
"""

import json
import re
import time
import warnings
from functools import cache
from unittest import mock

import nbformat
import pytest
import torch
from IPython.lib.pretty import pretty

from course_lib.exercises import fingerprints, folders
from course_lib.exercises.checking import exercises
from course_lib.grading import grades, scoring
from course_lib.grading.notebook.assignment import load_assignments
from course_lib.grading.run import sandbox
from course_lib.grading.run.grader import Grader, Options
from course_lib.grading.run.template import Template
from course_lib.launching import launcher
from course_lib.system import processes
from tests import answers
from tests.checking import (
    NOTEBOOKS,
    ROOT,
    answer_cell,
    cells,
    check_cell,
    given,
    notebook_of,
    outcome,
)
from tests.grading import Handed
from tests.kernels import Kernel, error, shown
from tests.leftovers import becomes, descendants

SHORT = 6  # seconds for ranks that would wait until the usual limit
# what starts processes of its own does not run in this one
IN_RANKS = {"5.1", "5.2", "5.3"}


def words(text):
    """The text in one line: a notebook breaks the lines of a message."""
    return " ".join(text.split())


def bare(text):
    """The words alone: with another comma a hint is the same one."""
    return " ".join(re.findall(r"\w+", text))


@cache
def hint(answer):
    """What finds the hint of a wrong answer among the words that a check says.

    Its own words, or those of the text that it names: `[late backward]` is the hint of
    this section, or the one with this name among `[hints]`.
    """
    if not answer.hint.startswith("["):
        return re.compile(re.escape(bare(answer.hint)))
    name, every = answer.hint.strip("[]"), folders.texts(answer.exercise)
    section = every[name] if every.has_section(name) else {}
    text = section["hint"] if "hint" in section else every["hints"][name]
    words_between = map(bare, re.split(r"{.*?}", text))
    return re.compile(".*?".join(map(re.escape, words_between)))


def each(given):
    """A test for each of these answers."""
    return pytest.mark.parametrize("answer", given, ids=lambda answer: answer.id)


@cache
def said(answer):
    """What the check of its exercise says of an answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the answer, as in a rank
        return outcome(
            answer.exercise,
            answer.source,
            timeout=answer.slow,
            called=answer.exercise not in IN_RANKS and not answer.slow,
        )


@pytest.fixture(autouse=True)
def one_thread():
    """Answers compute as in a rank."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def graders():
    """Graders as they are used: the usual one, and one with canaries."""
    template = Template()
    made = {
        canary: Grader(
            load_assignments(ROOT / "exercises"),
            Options(sandbox=not sandbox.missing(), canary=canary),
            template=template,
        )
        for canary in (False, True)
    }
    yield made
    for grader in made.values():
        grader.close()
    template.close()


def exercises_of(notebook):
    """The exercises of a notebook, in order."""
    checks = [name for name in cells(notebook) if name.startswith("check-")]
    return [name.removeprefix("check-").replace("-", ".") for name in checks]


def handed_in(notebook, given):
    """The exercise notebook with these answers in it."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    sources = {answer_cell(answer.exercise): answer.source for answer in given}
    for cell in content["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
    return Handed(json.dumps(content).encode())


@each(answers.right())
def test_a_right_answer_is_right(answer, record_property):
    record_property("answer", answer.id)
    assert_right(answer, said(answer))


def assert_right(answer, found):
    """The check finds an answer right, and says so."""
    assert found.status == "right", (
        f"the check does not find {answer.place} right ({found.status}), it said:"
        f" {found.message} {found.hint}"
    )
    assert f"✓ {answer.exercise} right" in found.message


@each(answers.wrong())
def test_a_wrong_answer_gets_its_hint(answer, record_property):
    record_property("answer", answer.id)
    assert_wrong(answer, said(answer))


def assert_wrong(answer, found):
    """The check finds an answer wrong, with its hint, and without lines of its own."""
    assert found.status == "not yet", (
        f"the check does not find {answer.place} wrong ({found.status}), it said:"
        f" {found.message}"
    )
    assert found.message.startswith(f"✗ {answer.exercise} not yet"), found
    assert hint(answer).search(bare(found.hint)), (
        f"{answer.place} gets the hint {found.hint!r}, and the words of its"
        f" `hint` are {answer.hint!r}; change one of them"
    )
    told = found.message
    assert "site-packages" not in told and "course_lib/" not in told, told
    if answer.makes:
        assert_kept(answer, fingerprints.of(found.wrong))


def assert_kept(answer, today):
    """The fingerprint that is kept of a mistake is near to that of today."""
    mistakes = fingerprints.known(answer.exercise)
    kept = next(one for one in mistakes if one["name"] == answer.name)
    todo = f"keep it anew: make mistakes ARGS={answer.exercise}"
    if "failed" in kept:
        assert today == {"failed": kept["failed"]}, todo
    else:
        assert today["case"] == kept["case"], todo
        apart = fingerprints.distance(today["clue"], kept["clue"])
        assert apart < fingerprints.NEAR / 4, todo


@pytest.mark.parametrize("exercise", exercises())
def test_each_mistake_has_a_hint_of_its_own(exercise):
    wrong = (one for one in answers.wrong() if one.exercise == exercise)
    mine = [answer for answer in wrong if answers.is_taken(answer)]
    told = {one.id: bare(said(one).message + said(one).hint) for one in mine}
    for answer in mine:
        others = [other for other in mine if other.mistake != answer.mistake]
        found = hint(answer).search
        shared = [other.place for other in others if found(told[other.id])]
        assert not shared, (
            f"the hint of {answer.place} is also what {', '.join(shared)} gets. Let the"
            " check give each mistake a hint of its own. If both make the same"
            f" mistake, write `# same as: {answer.name}` below the hint of the other"
        )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_wrong_answer_gets_no_points_and_its_hint(graders, notebook):
    given = [one_wrong(exercise) for exercise in exercises_of(notebook)]
    found = graders[False].grade(handed_in(notebook, given))
    assert found.status == grades.GRADED and found.points == 0, found
    for answer, task in zip(given, found.tasks):
        assert task.outcome == grades.NOT_YET, (answer.place, task)
        assert task.message.startswith(f"✗ {answer.exercise} not yet"), task
        assert hint(answer).search(bare(task.hint)), (answer.place, task)
        assert "site-packages" not in task.message, task


def one_wrong(exercise):
    """The first wrong answer to an exercise that does not wait."""
    mine = (one for one in answers.wrong() if one.exercise == exercise)
    return next(answer for answer in mine if not answer.slow)


def graded(grader, data, *, kind, record_property):
    """The grade of a notebook, and the cells that did not pass."""
    with mock.patch.object(scoring, "notes", wraps=scoring.notes) as spy:
        grade = grader.grade(Handed(data))
    ran = spy.call_args.args[1].cells
    record_property("cells", (kind, len(ran)))
    return grade, {name for name, cell in ran.items() if cell["outcome"] != "passed"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_exercise_as_shipped_is_not_started(graders, notebook, record_property):
    data = notebook.read_bytes()
    noted = {"kind": "exercises", "record_property": record_property}
    found, failed = graded(graders[False], data, **noted)
    # of the cells that are given all pass
    assert failed == {check_cell(exercise) for exercise in exercises_of(notebook)}
    assert found.points == 0 and not found.repairs
    assert {task.outcome for task in found.tasks} == {grades.NOT_STARTED}, found.tasks
    stages = [task.message.split()[:2] for task in found.tasks]
    assert stages == [["○", exercise] for exercise in exercises_of(notebook)]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_solution_gets_all_points_and_no_check_is_vacuous(
    graders, notebook, record_property
):
    data = (ROOT / "solutions" / notebook.name).read_bytes()
    noted = {"kind": "solutions", "record_property": record_property}
    found, failed = graded(graders[True], data, **noted)
    checks = map(check_cell, exercises_of(notebook))
    assert failed == {f"canary-{check}" for check in checks}
    lost = [f"{t.id}: {t.message}" for t in found.tasks if t.outcome != grades.RIGHT]
    assert not lost, f"solutions/{notebook.name} does not pass {'; '.join(lost)}"
    assert found.points == found.max_points and not found.repairs
    assert bool(found.max_points) == (notebook.stem[:2] != "00")  # which is for fun
    # with canaries, each of which must fail
    assert found.status == grades.GRADED
    record_property(
        "summary",
        f"graded {notebook.stem}: solution {found.points:g} of {found.max_points:g}"
        f" points, {len(found.tasks)} canaries failed as they must",
    )


class Desk:
    """A kernel with one notebook open in it, all given cells run."""

    def __init__(self, notebook, progress):
        self.cells = cells(notebook)
        self.kernel = Kernel()
        self.files = progress.parent / "files"
        self.files.mkdir()
        self.run(f"%env COURSE_LIB_PROGRESS={progress}")
        self.run(f"import tempfile; tempfile.tempdir = {str(self.files)!r}")
        for name, source in self.cells.items():
            if not name.startswith(("answer-", "check-", "summary")):
                assert error(self.run(source)) is None

    def run(self, source):
        return self.kernel.run(source, seconds=120)

    def check(self, exercise, answer, timeout=None):
        """Run `answer` as the answer cell, then its check; the message of the check."""
        call = self.cells[check_cell(exercise)]
        if timeout:
            call = call.replace(")", f", timeout={timeout})")
        said = error(self.run(answer))
        assert said is None, said
        messages = self.run(call)
        return error(messages) or shown(messages).strip()

    def is_clear(self):
        # torch makes the folder of its compiler when DDP is first used
        files = [f for f in self.files.iterdir() if "torchinductor" not in f.name]
        return not descendants(self.kernel.pid) and not files


@pytest.fixture(scope="module")
def desks(tmp_path_factory):
    """The kernel of each notebook, by exercise."""
    opened = {}

    def desk(exercise):
        notebook = notebook_of(exercise)
        if notebook not in opened:
            progress = tmp_path_factory.mktemp("desk") / "progress.jsonl"
            opened[notebook] = Desk(notebook, progress)
        return opened[notebook]

    yield desk
    clear = all(becomes(one.is_clear) for one in opened.values())
    for one in opened.values():
        one.kernel.close()
    assert clear


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_of_solutions_that_are_compared_come_again(notebook):
    content = nbformat.read(ROOT / "solutions" / notebook.name, as_version=4)
    for cell in content.cells:
        if "nbval-check-output" in cell.metadata.get("tags", []):
            (stored,) = cell.outputs
            assert shown_by(notebook, cell.source) == stored.data["text/plain"]


def shown_by(notebook, source):
    """What a cell shows at its end, after the cells that answers build on."""
    *lines, last = source.split("\n")
    variables = dict(given(notebook))
    exec("\n".join(lines), variables)
    return pretty(eval(last, variables))


@pytest.mark.parametrize("exercise", exercises())
def test_every_check_meets_enough_answers(exercise):
    right = [one for one in answers.right() if one.exercise == exercise]
    wrong = [one for one in answers.wrong() if one.exercise == exercise]
    folder = f"tests/exercises/{folders.folder_name(exercise)}"
    assert len(right) >= 2, (
        f"{folder}/right holds {len(right)} answer{'s' * (len(right) != 1)}, at"
        " least 2 are needed"
    )
    mistakes = {answer.hint for answer in wrong}
    assert len(mistakes) >= 3, (
        f"{folder}/wrong holds answers with {len(mistakes)} different hints, at"
        " least 3 are needed"
    )


@pytest.mark.parametrize(
    "exercise", sorted({one.exercise for one in answers.right() + answers.wrong()})
)
def test_answers_are_to_an_exercise_that_there_is(exercise):
    assert exercise in exercises(), (
        f"tests/ has answers to {exercise}, and course_lib/exercises has no folder for"
        " it: draft it"
    )


def mean_loss(line):
    """A right answer to 4.5c with one more line at its head."""
    return f"""
def mean_loss(rank, world_size, loss):
    {line}
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"mean loss {{mean.item() / world_size:.3f}}")
    return mean.item() / world_size
"""


# what an answer does beside its task, and what the check then says
FAULTS = {
    "import sys; sys.exit()": "left by sys.exit(0) before mean_loss returned",
    "import os; rank == 1 and os._exit(0)": "rank 1 of 3 ended with exit code 0",
    "import os; rank == 1 and os.kill(os.getpid(), 9)": "rank 1 of 3 was killed by SIG",
    "while rank == 1: pass": "A rank is still busy in a line of yours",
    "import threading as t; t.Timer(99, print).start()": "a thread that it started",
    "raise ValueError('oops')": "raised ValueError: oops",
    "input('go on?')": "A rank has no keyboard",
    "nn.Module()(loss)": "raised NotImplementedError: Module [Module] is missing",
    "rank == 1 and get_ipython()": "cannot send mean_loss to the ranks: `mean_loss`",
    "return float('nan')": "returned nan",
    "return lambda: 1": "expected 1.5151, the mean over all ranks",
    "return f'{loss}'": "Every rank returns the mean of all losses, as a number",
}


@pytest.mark.faults
@pytest.mark.parametrize("line", FAULTS)
def test_a_fault_is_told_in_one_clear_message(desks, line):
    desk = desks("4.5c")
    said = desk.check("4.5c", mean_loss(line), SHORT)
    assert said.startswith("✗ 4.5c not yet"), said
    assert FAULTS[line] in words(said)
    assert "site-packages" not in said and "course_lib/" not in said
    assert becomes(desk.is_clear)


@pytest.mark.faults
@pytest.mark.parametrize(
    "line",
    [
        "print('x' * 1_000_000)",
        "import warnings; warnings.warn('mind')",
        "import subprocess; subprocess.Popen(['sleep', '99'])",
        "import threading as t; t.Thread(target=input, daemon=True).start()",
        "global seen; seen = rank",
        "torch.manual_seed(rank)",
    ],
)
def test_what_is_done_beside_a_right_answer_is_no_fault(desks, line):
    desk = desks("4.5c")
    assert "✓ 4.5c right" in desk.check("4.5c", mean_loss(line))
    assert becomes(desk.is_clear)


# one right answer of each exercise whose check computes in the notebook's process
SETTLED = (
    "tensor",
    "other_loss_forms",
    "file_handle",
    "nullcontext",
    "gathered",
    "all_gather",
)
SETTINGS = {
    "torch.set_default_dtype(torch.float64)": "torch.set_default_dtype(torch.float32)",
    "torch.set_grad_enabled(False)": "torch.set_grad_enabled(True)",
    "torch.set_default_device('meta')": "torch.set_default_device(None)",
}


@pytest.mark.faults
def test_settings_of_the_notebook_do_not_reach_a_check(desks):
    desk = desks("4.4")
    for line in SETTINGS:
        desk.run(line)
    try:
        for answer in (one for one in answers.right() if one.name in SETTLED):
            told = desk.check(answer.exercise, answer.source)
            assert f"✓ {answer.exercise} right" in told
        kept = "torch.empty(1).dtype, torch.empty(1).device, torch.is_grad_enabled()"
        said = shown(desk.run(kept))
        assert "torch.float64, device(type='meta'), False" in words(said)
    finally:
        for line in SETTINGS.values():
            desk.run(line)


@pytest.mark.faults
def test_an_answer_without_end_is_wrong(desks):
    generator = """
def shard_indices(num_samples, rank, world_size):
    while True:
        yield 0
"""
    assert desks("4.1").check("4.1", generator).startswith("✗ 4.1 not yet")


# kernels of tests are forked with all imported; in a notebook the import does it
ASKED = """
from course_lib.tracebacks import show_errors
from course_lib.exercises import checking
show_errors(NameError, checking._show_name_error)
"""
DEVICES = "devs = cl.devices(2, memory='1 MB', quiet=True)"
THEIRS = """
def theirs(shell, kind, error, trace, tb_offset=None):
    print("theirs:", kind.__name__)

get_ipython().set_custom_exc((KeyError,), theirs)
"""


@pytest.mark.faults
@pytest.mark.parametrize(
    "before",
    [[ASKED], [ASKED, DEVICES], [DEVICES, ASKED], [THEIRS, DEVICES, ASKED, DEVICES]],
    ids=["alone", "then devices", "after devices", "among others"],
)
def test_a_check_whose_answer_cell_did_not_run_says_so(desks, before):
    desk = desks("4.5c")
    for cell in before:
        desk.run(cell)
    said = error(desk.run('cl.check("4.5c", not_written_yet)'))
    assert words(said) == (
        "○ 4.5c not started: there is no not_written_yet in this kernel yet. Run the"
        " cell above that defines it, then this one. After a restart: Run › Run All"
        " Above Selected Cell."
    )
    # another name that is missing is told as ever
    assert "NameError" in error(desk.run('cl.check("4.5c", min(no_such_name))'))
    assert "NameError" in error(desk.run("no_such_name"))
    if DEVICES in before:
        full = error(desk.run("torch.ones(10**6, device=devs[0])"))
        assert "out of memory" in full and "course_lib" not in full
    if THEIRS in before:
        assert "theirs: KeyError" in shown(desk.run("{}['key']"))
        desk.run("get_ipython().set_custom_exc((), None)")


@pytest.mark.faults
def test_time_that_a_busy_machine_keeps_from_a_rank_does_not_count(monkeypatch):
    answer = next(one for one in answers.right() if one.exercise == "2.2")
    slow = f"import time\n\n\n{answer.source}".replace(
        "    parameters = list", "    time.sleep(3)\n    parameters = list"
    )
    assert slow.count("sleep") == 1
    assert "not done after 2 s" in outcome("2.2", slow, timeout=2).message
    with monkeypatch.context() as patch:
        # times the limit: this machine is busy, too
        patch.setattr(launcher, "_MOST", 30)
        patch.setattr(processes, "starved", lambda pids: time.monotonic())
        assert outcome("2.2", slow, timeout=2).status == "right"
    monkeypatch.setattr(processes, "starved", lambda pids: time.monotonic())
    endless = slow.replace("time.sleep(3)", "time.sleep(99)")
    began = time.monotonic()
    assert "not done after 2 s" in outcome("2.2", endless, timeout=2).message
    assert time.monotonic() - began < 60
